"""`torch.save`: what was saved, and how long it took. In a worker it is no checkpoint, and passed over."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from .. import format as f
from ..format import Kind
from ..guard import Guard, clean
from ..patching import Undo, replace_everywhere
from ..process import process
from ..recorder import clock

MODULES = ("torch.serialization",)
OWES = (Kind.SAVE,)
NOTED = 500  # saves that outlive the ring; one that saves with every step must not push out the other notes


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace_everywhere(module, "save", lambda original: _save(original, guard))


def _save(original: Any, guard: Guard) -> Any:
    counted = [0]

    def save(*args: Any, **kwargs: Any) -> Any:
        start = clock()
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        guard.quietly(_saved, args[1] if len(args) > 1 else kwargs.get("f"), start, counted)
        return result

    return save


def _saved(target: object, start: int, counted: list[int]) -> None:
    recorder = process.recorder
    if recorder is None or recorder.words[f.H_ROLE] != f.ROLE_MAIN:
        return
    now = clock()
    counted[0] += 1
    if counted[0] <= NOTED:
        recorder.note(Kind.SAVE, recorder.intern(_path(target)), start, now - start)
    else:
        recorder.event(Kind.SAVE, 0, start, now - start)  # no name: new ones would fill the table of strings
    recorder.cost(clock() - now)


def _path(target: object) -> str:
    """Of a file too, if it is one of Python's own; nothing of the user's is called."""
    if type(target) is str:
        return os.path.abspath(target)
    if isinstance(target, os.PathLike) and type(target).__module__.startswith("pathlib"):
        return os.path.abspath(str(target))
    name = getattr(target, "name", None) if type(target).__module__ == "_io" else None
    return str(os.path.abspath(name)) if type(name) is str else f"<{type(target).__name__}>"
