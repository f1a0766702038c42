"""torchdata's StatefulDataLoader, which has a constructor and an `__iter__` of its own."""

from __future__ import annotations

from types import ModuleType

from ..format import Kind
from ..guard import Guard
from ..patching import Undo, replace
from .torch_dataloader import iterate

MODULES = ("torchdata.stateful_dataloader.stateful_dataloader",)
OWES = (Kind.LOADER, Kind.ITERATOR, Kind.WORKER, Kind.WAIT)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.StatefulDataLoader, "__iter__", lambda original: iterate(original, guard))
