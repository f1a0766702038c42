"""Lightning's Trainer, by both of its names: what it was told, its phases in their true order, and its hooks.

`_run_stage` is what fit, validate, test and predict come to in the process that does the work. The loops' functions at
the boundaries of epochs are few; only in them is each hook timed, by the profiler that Lightning asks around every one.
A step costs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, replace, together
from ..format import Kind
from ..frameworks.lightning import Window, combined, delivered, facts_of, progress_of, stage_of
from ..frameworks.trainers import Run, begin_run, is_complete, is_through, takes_ahead
from ..loading.passes import modes

MODULES = (
    "lightning.pytorch.trainer.trainer",
    "lightning.pytorch.loops.fit_loop",
    "lightning.pytorch.loops.evaluation_loop",
    "lightning.pytorch.loops.prediction_loop",
    "pytorch_lightning.trainer.trainer",
    "pytorch_lightning.loops.fit_loop",
    "pytorch_lightning.loops.evaluation_loop",
    "pytorch_lightning.loops.prediction_loop",
)
OWES = (Kind.FRAMEWORK, Kind.PHASE, Kind.CALL, Kind.PASS_END)
PHASES = {"sanity_check": "sanity check", "validate": "validation", "test": "test", "predict": "predict"}
FITTING = ("run", "on_run_start", "on_advance_start", "on_advance_end", "on_run_end")
EVALUATING = ("run", "on_run_start", "on_run_end")


def install(module: ModuleType, guard: Guard) -> Undo:
    """What a version lacks is left out."""
    own = vars(module)
    trainer, fit = own.get("Trainer"), own.get("_FitLoop") or own.get("FitLoop")
    names = ("_EvaluationLoop", "EvaluationLoop", "_PredictionLoop", "PredictionLoop")
    others = [own[name] for name in names if name in own and own[name].__module__ == module.__name__]
    undos = []
    if trainer is not None and trainer.__module__ == module.__name__:
        undos.append(replace(trainer, "_run_stage", lambda original: _run_stage(original, guard)))
    if fit is not None and fit.__module__ == module.__name__:
        undos += [_step(fit, name, guard) for name in FITTING]
    undos += [_step(one, name, guard) for one in others for name in EVALUATING]
    return together(*undos)


def _run_stage(original: Any, guard: Guard) -> Any:
    return around(original, guard, _begins, leave=guard.quietly)


def _step(owner: Any, name: str, guard: Guard) -> Undo:
    """One function of a loop: what it means is told before and after, and its hooks are timed."""
    begin = functools.partial(_before, name, guard)
    return replace(owner, name, lambda original: around(original, guard, begin, leave=guard.quietly))


def _begins(frame: FrameType, args: Any, _kwargs: Any) -> Callable[[], None] | None:
    """How it is ended."""
    trainer = args[0]
    run = begin_run(facts_of(trainer), frame)
    if run is None:
        return None
    _runs.append((trainer, run))
    return functools.partial(_ends, run)


def _ends(run: Run) -> None:
    _runs[:] = [one for one in _runs if one[1] is not run]
    run.ends()


def _run(trainer: Any) -> Run | None:
    return next((run for owner, run in reversed(_runs) if owner is trainer), None)


def _before(name: str, guard: Guard, _frame: FrameType, args: Any, _kwargs: Any) -> Callable[[], None] | None:
    """How it is ended."""
    loop = args[0]
    trainer = getattr(loop, "trainer", None)
    run = _run(trainer)
    if run is None:
        return None
    tell = BEFORE.get((_is_fit(loop), name))
    if tell is not None:
        tell(run, trainer, loop)
    return functools.partial(_ran, run, trainer, loop) if name == "run" else Window(trainer, guard).close


def _ran(run: Run, trainer: Any, loop: Any) -> None:
    if _is_fit(loop):
        run.phase_ends("training")  # where there was nothing to train
    else:
        stage = PHASES.get(stage_of(trainer), "validation")
        run.phase_ends(stage)
        run.validations += stage == "validation"


def _is_fit(loop: Any) -> bool:
    return "FitLoop" in type(loop).__name__ or hasattr(loop, "epoch_loop")


def _setting_up(run: Run, _trainer: Any, _loop: Any) -> None:
    """The first iterator is made with the data, before the first epoch begins, and belongs to it."""
    run.phase("training")


def _fit_begins(run: Run, trainer: Any, loop: Any) -> None:
    """Its data is set up, and how much there is of it."""
    run.tells(**progress_of(trainer, loop))
    _look_ahead(loop)


def _look_ahead(loop: Any) -> None:
    fetcher = getattr(loop, "_data_fetcher", None)
    if fetcher is not None and getattr(fetcher, "length", 0) is None:
        for one in combined(loop):
            takes_ahead(one)


def _epoch_begins(run: Run, _trainer: Any, loop: Any) -> None:
    _look_ahead(loop)
    modes.evaluated = None  # what DDP is wrapped around trains again, and DDP itself is not told
    run.phase("training")


def _epoch_ends(run: Run, trainer: Any, loop: Any) -> None:
    """All its batches are trained on, and validations in it are done; its hooks are still to come."""
    for one in combined(loop):
        is_through(one)
    run.phase_ends("training")
    run.epoch_ends(**delivered(trainer, loop))


def _evaluation_begins(run: Run, trainer: Any, _loop: Any) -> None:
    """Inside of a training epoch: if that has had all its batches, the rest of it belongs to its end."""
    for one in combined(getattr(trainer, "fit_loop", None)):
        is_complete(one)
    run.phase(PHASES.get(stage_of(trainer), "validation"))


def _evaluating(_run: Run, _trainer: Any, loop: Any) -> None:
    _look_ahead(loop)


def _evaluated(_run: Run, _trainer: Any, loop: Any) -> None:
    for one in combined(loop):
        is_through(one)


BEFORE = {
    (True, "run"): _setting_up,
    (True, "on_run_start"): _fit_begins,
    (True, "on_advance_start"): _epoch_begins,
    (True, "on_advance_end"): _epoch_ends,
    (False, "run"): _evaluation_begins,
    (False, "on_run_start"): _evaluating,
    (False, "on_run_end"): _evaluated,
}
_runs: list[tuple[Any, Run]] = []  # that go on, the innermost last
