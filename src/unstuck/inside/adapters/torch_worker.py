"""DataLoader workers: when each starts and ends, and what its feeder thread hands over."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import format as f
from ..core.guard import Guard, Undo, clean, replace, together
from ..core.process import forget_old_workers, process
from ..core.recorder import clock
from ..failures import exceptions

# StatefulDataLoader has a loop of its own, and takes it over by name.
MODULES = (
    "torch.utils.data._utils.worker",
    "torchdata.stateful_dataloader.worker",
    "torchdata.stateful_dataloader.stateful_dataloader",
)
OWES = (f.Kind.IDLE,)


def install(module: ModuleType, guard: Guard) -> Undo:
    if getattr(module._worker_loop, "_unstuck", False):  # taken over from the module that was patched before
        return together()
    return replace(module, "_worker_loop", lambda original: _loop(original, guard))


class _Prepared:
    """torch catches what `worker_init_fn` raises and sends it to the main process, so it is met inside."""

    def __init__(self, function: Any, guard: Guard) -> None:
        self.function = function
        self.guard = guard

    def __call__(self, worker: int) -> None:
        begun = clock()
        self.guard.quietly(_init_begins, begun)
        try:
            self.function(worker)
        except Exception as error:
            self.guard.quietly(keep_init, error)
            clean(error)
            raise
        self.guard.quietly(_init_ends, begun)


def _init_begins(begun: int) -> None:
    """As a stage: on the board while it lasts."""
    recorder = process.recorder
    if recorder is not None:
        key = recorder.intern(f.WORKER_INIT)
        recorder.board(recorder.board_slot(f.Kind.STAGE, key), f.Kind.STAGE, key, begun, 1)


def _init_ends(begun: int) -> None:
    recorder, now = process.recorder, clock()
    if recorder is not None:
        key = recorder.intern(f.WORKER_INIT)
        recorder.total(recorder.total_slot(f.Kind.STAGE, key), now - begun)
        recorder.board(recorder.board_slot(f.Kind.STAGE, key), f.Kind.STAGE, key, now)


def keep_init(error: Exception) -> None:
    exceptions.keep(error, "init")


def _loop(original: Any, guard: Guard) -> Any:
    names = original.__code__.co_varnames
    at, of, init = (names.index(name) for name in ("worker_id", "num_workers", "init_fn"))

    def _worker_loop(*given: Any) -> None:
        args = given if given[init] is None else (*given[:init], _Prepared(given[init], guard), *given[init + 1 :])
        try:
            recorder = process.recording(f.ROLE_WORKER)
            if recorder is not None:
                recorder.words[f.H_ROLE] = f.ROLE_WORKER
                recorder.words[f.H_WORKER] = args[at] + 1
                recorder.words[f.H_WORKERS] = args[of]
        except Exception as error:
            if guard.theirs(error):
                raise
        try:
            original(*args)
        except Exception as error:
            clean(error)
            raise
        guard.quietly(process.ended, f.ENDED_LOOP)
        if process.recorder is not None:
            guard.quietly(forget_old_workers, process.recorder, args[of])

    _worker_loop._unstuck = True  # type: ignore[attr-defined]
    return _worker_loop
