"""The Trainer of transformers and all that are made of it: what it was told, its phases, and its callbacks' events.

Its `CallbackHandler` has a function for every event, which goes through the callbacks. Those that are rare are wrapped,
and each callback is timed in them. A step costs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, replace, together
from ..format import Kind
from ..frameworks.accelerate import base_of
from ..frameworks.trainers import Run, begin_run, is_through
from ..frameworks.transformers import Timed, facts_of, is_missed, progress_of
from ..loading.loaders import done_with
from ..loading.passes import modes
from ..side_work.loggers import told_by_logger

MODULES = ("transformers.trainer", "transformers.trainer_callback")
OWES = (Kind.FRAMEWORK, Kind.PHASE, Kind.CALL, Kind.PASS_END, Kind.METRIC)
TELL_THEMSELVES = ("TensorBoard", "Wandb", "MLflow")
CALLS = {"train": "training", "evaluate": "validation", "predict": "predict"}
RARE = (
    "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_evaluate", "on_predict", "on_save",
    "on_push_begin",
)  # fmt: skip


def install(module: ModuleType, guard: Guard) -> Undo:
    """What a version lacks is left out."""
    if module.__name__ == "transformers.trainer_callback":
        handler = module.CallbackHandler
        logs = replace(handler, "on_log", lambda original: around(original, guard, _logged))
        return together(logs, *(_event(handler, name, guard) for name in RARE))
    return together(*(_call(module.Trainer, name, guard) for name in CALLS))


def _call(trainer: Any, name: str, guard: Guard) -> Undo:
    begin = functools.partial(_begins, name)
    return replace(trainer, name, lambda original: around(original, guard, begin, leave=guard.quietly))


def _event(handler: Any, name: str, guard: Guard) -> Undo:
    begin, close = functools.partial(_event_begins, name, guard), functools.partial(_close, guard)
    return replace(handler, name, lambda original: around(original, guard, begin, fail=Timed.fails, leave=close))


def _close(guard: Guard, timed: Timed) -> None:
    guard.quietly(timed.close)


def _begins(name: str, frame: FrameType, args: Any, _kwargs: Any) -> Callable[[], None] | None:
    """How it is ended. A validation inside of a training is a phase of that."""
    trainer = args[0]
    run = _run(trainer)
    if run is None or name == "train":
        run = begin_run(facts_of(trainer, name), frame)
        if run is None:
            return None
        _runs.append((trainer, run))
    if name != "train":
        run.phase(CALLS[name])
    return functools.partial(_ends, trainer, run, name)


def _ends(trainer: Any, run: Run, name: str) -> None:
    if name != "train":
        run.validations += name == "evaluate"
        run.phase_ends(CALLS[name])
        done_with(base_of(getattr(getattr(trainer, "callback_handler", None), "eval_dataloader", None)))
    if run.what == name:
        run.missed += name == "train" and is_missed(trainer, run)
        _runs[:] = [one for one in _runs if one[1] is not run]
        run.ends()


def _run(trainer: Any) -> Run | None:
    return next((run for owner, run in reversed(_runs) if owner is trainer), None)


def _event_begins(event: str, guard: Guard, _frame: FrameType, args: Any, _kwargs: Any) -> Timed:
    handler, *given = args
    run = next((run for trainer, run in reversed(_runs) if getattr(trainer, "callback_handler", None) is handler), None)
    if run is not None and event in EVENTS:
        EVENTS[event](run, handler, given)
    return Timed(handler, event, guard)


def _logged(_frame: FrameType, args: Any, kwargs: Any) -> None:
    """Values that are named like a loss; where a logger with an adapter of its own is used, that tells them."""
    handler, *given = args
    callbacks = getattr(handler, "callbacks", None) or ()
    if any(type(one).__name__.startswith(TELL_THEMSELVES) for one in callbacks):
        return
    logs = given[3] if len(given) > 3 else kwargs.get("logs")
    step = getattr(given[1], "global_step", None) if len(given) > 1 else None
    for name, value in list(logs.items()) if type(logs) is dict else ():
        told_by_logger(name, value, step)


def _train_begins(run: Run, handler: Any, args: Any) -> None:
    run.tells(**progress_of(handler, args))


def _epoch_begins(run: Run, _handler: Any, _args: Any) -> None:
    modes.evaluated = None  # it sets the model to train only when the first batch is there
    run.phase("training")


def _epoch_ends(run: Run, handler: Any, args: Any) -> None:
    """All its batches are trained on. Where it validates once an epoch, that comes after its hooks."""
    loader = getattr(handler, "train_dataloader", None)
    known = is_through(loader)
    run.phase_ends("training")
    announced = progress_of(handler, args)["announced"]
    short = known is not None and announced is not None and known < announced
    run.epoch_ends(known, short=short)


EVENTS = {"on_train_begin": _train_begins, "on_epoch_begin": _epoch_begins, "on_epoch_end": _epoch_ends}
_runs: list[tuple[Any, Run]] = []  # that go on, the innermost last
