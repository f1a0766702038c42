"""torchdata's StatefulDataLoader, which has a constructor and an `__iter__` of its own."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace, together
from ..format import Kind
from ..loading.loaders import note_resumed
from .torch_dataloader import iterate, shutdown

MODULES = ("torchdata.stateful_dataloader.stateful_dataloader",)
OWES = (Kind.LOADER, Kind.ITERATOR, Kind.WORKER, Kind.WAIT, Kind.SHUTDOWN, Kind.RESUMED)


def install(module: ModuleType, guard: Guard) -> Undo:
    workers = module._StatefulMultiProcessingDataLoaderIter
    return together(
        replace(module.StatefulDataLoader, "load_state_dict", lambda original: _load(original, guard)),
        replace(module.StatefulDataLoader, "__iter__", lambda original: iterate(original, guard)),
        replace(workers, "_shutdown_workers", lambda original: shutdown(original, guard)),
    )


def _load(original: Any, guard: Guard) -> Any:
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        guard.quietly(note_resumed, self)

    return load_state_dict
