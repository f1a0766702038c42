"""accelerate's `skip_first_batches`, which transformers uses too: of a stream, a loader loads them and drops them.

Of a map-style dataset only their indices are drawn, which takes no time worth a word.
"""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, replace
from ..core.objects import attributes_of
from ..format import Kind
from ..frameworks.accelerate import base_of
from ..loading.loaders import entry_of
from ..loading.passes import skipping_begins, skipping_done

MODULES = ("accelerate.data_loader",)
OWES = (Kind.SKIPPING,)
WHO = "accelerate.skip_first_batches"
DISPATCHER = "DataLoaderDispatcher"


def install(module: ModuleType, guard: Guard) -> Undo:
    """Every one of its loaders calls `begin` once, before the first batch of a pass."""
    return replace(module.DataLoaderStateMixin, "begin", lambda original: around(original, guard, _look_at))


def _look_at(_frame: FrameType, args: Any, _kwargs: Any) -> None:
    loader = args[0]
    own, base = attributes_of(loader), base_of(loader)
    entry = entry_of(base) if "dataset" in attributes_of(base) else None
    if entry is None or entry.recorder is None:
        return
    count = own.get("skip_batches")
    if type(count) is int and count > 0:
        skipping_begins(entry.recorder, entry.number, WHO, count * _each(loader, own))
    else:  # one made anew at the same line has the same number
        skipping_done(entry.recorder, entry.number)


def _each(loader: Any, own: dict[str, Any]) -> int:
    """Batches that are loaded for one: who loads for all ranks takes one for each of them."""
    if type(loader).__name__ != DISPATCHER or own.get("split_batches"):
        return 1
    processes = attributes_of(own.get("state")).get("num_processes")
    return processes if type(processes) is int else 1
