"""torchdata's StatefulDataLoader, which has a constructor and an `__iter__` of its own."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, replace, together
from ..format import Kind
from ..loading.loaders import note_resumed
from .torch_dataloader import iterate, shutdown

MODULES = ("torchdata.stateful_dataloader.stateful_dataloader",)
OWES = (Kind.LOADER, Kind.ITERATOR, Kind.WORKER, Kind.WAIT, Kind.SHUTDOWN, Kind.RESUMED)


def install(module: ModuleType, guard: Guard) -> Undo:
    workers = module._StatefulMultiProcessingDataLoaderIter
    return together(
        replace(module.StatefulDataLoader, "load_state_dict", lambda original: after(original, guard, _resumed)),
        replace(module.StatefulDataLoader, "__iter__", lambda original: iterate(original, guard)),
        replace(workers, "_shutdown_workers", lambda original: shutdown(original, guard)),
    )


def _resumed(_frame: FrameType, args: Any, _kwargs: Any, _result: Any) -> None:
    note_resumed(args[0])
