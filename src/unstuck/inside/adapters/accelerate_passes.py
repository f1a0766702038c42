"""The loaders that accelerate makes: they take a batch ahead, so that a pass over them ends later than it seems to.

They fetch the next batch before they hand one on, to know which is the last. The DataLoader inside is exhausted while
the loop's last body is still to run. Their own `begin` and `end` stand around a pass, and are called once in it.
"""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, replace, together
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import clock
from ..format import Kind
from ..frameworks.accelerate import base_of
from ..loading.loaders import Entry, entry_of

MODULES = ("accelerate.data_loader",)
OWES = (Kind.PASS_END,)


def install(module: ModuleType, guard: Guard) -> Undo:
    mixin = module.DataLoaderStateMixin
    if "end" not in vars(mixin):  # who is not told of the end does not wait for it
        raise AttributeError("DataLoaderStateMixin has no end")
    return together(
        replace(mixin, "begin", lambda original: around(original, guard, _begins)),
        replace(mixin, "end", lambda original: around(original, guard, _ends)),
    )


def _begins(_frame: FrameType, args: Any, _kwargs: Any) -> None:
    entry = _entry(args[0])
    if entry is not None:
        entry.handed_on = True


def _ends(_frame: FrameType, args: Any, _kwargs: Any) -> None:
    entry = _entry(args[0])
    cursor = entry.cursor if entry is not None else None
    if cursor is not None and cursor.exhausted and cursor.recorder is process.recorder:
        cursor.over(clock())


def _entry(loader: Any) -> Entry | None:
    base = base_of(loader)
    return entry_of(base) if "dataset" in attributes_of(base) else None
