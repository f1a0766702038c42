"""torchdata's StatefulDataLoader, which has a constructor and an `__iter__` of its own."""

from __future__ import annotations

from types import ModuleType

from ..format import Kind
from ..guard import Guard
from ..patching import Undo, replace, together
from .torch_dataloader import iterate, shutdown

MODULES = ("torchdata.stateful_dataloader.stateful_dataloader",)
OWES = (Kind.LOADER, Kind.ITERATOR, Kind.WORKER, Kind.WAIT, Kind.SHUTDOWN)


def install(module: ModuleType, guard: Guard) -> Undo:
    workers = module._StatefulMultiProcessingDataLoaderIter
    return together(
        replace(module.StatefulDataLoader, "__iter__", lambda original: iterate(original, guard)),
        replace(workers, "_shutdown_workers", lambda original: shutdown(original, guard)),
    )
