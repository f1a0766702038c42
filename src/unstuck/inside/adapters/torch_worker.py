"""DataLoader workers: when each starts and ends, and what its feeder thread hands over."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import format as f
from ..guard import Guard, clean
from ..patching import Undo, replace, together
from ..process import forget_old_workers, process

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


def _loop(original: Any, guard: Guard) -> Any:
    names = original.__code__.co_varnames
    at, of = names.index("worker_id"), names.index("num_workers")

    def _worker_loop(*args: Any) -> None:
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
