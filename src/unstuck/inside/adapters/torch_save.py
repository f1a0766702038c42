"""`torch.save`: what was saved, and how long it took. In a worker it is no checkpoint, and passed over.

Neither is each tensor that `torch.distributed.checkpoint` saves by it: a whole checkpoint of that has its own adapter.
"""

from __future__ import annotations

import os
import sys
from types import FrameType, ModuleType
from typing import Any

from .. import format as f
from ..format import Kind
from ..guard import Guard, clean
from ..patching import Undo, replace_everywhere
from ..process import process
from ..recorder import clock

MODULES = ("torch.serialization",)
OWES = (Kind.SAVE,)
PART = os.path.join("torch", "distributed", "checkpoint", "")
NOTED = 500  # saves that outlive the ring; one that saves with every step must not push out the other notes


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace_everywhere(module, "save", lambda original: _save(original, guard))


def _save(original: Any, guard: Guard) -> Any:
    def save(*args: Any, **kwargs: Any) -> Any:
        start = clock()
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        if not is_part(sys._getframe(1)):
            guard.quietly(saved, args[1] if len(args) > 1 else kwargs.get("f"), start)
        return result

    return save


def is_part(frame: FrameType) -> bool:
    """Called by torch.distributed.checkpoint itself."""
    return PART in frame.f_code.co_filename


def saved(target: object, start: int, how: int = 0) -> None:
    recorder = process.recorder
    if recorder is None or recorder.words[f.H_ROLE] != f.ROLE_MAIN:
        return
    now = clock()
    _counted.append(None)
    if len(_counted) <= NOTED:
        recorder.note(Kind.SAVE, recorder.intern(_path(target)), start, now - start, how)
    else:
        recorder.event(Kind.SAVE, 0, start, now - start, how)  # no name: new ones would fill the table of strings
        _counted.pop()
    recorder.cost(clock() - now)


def _path(target: object) -> str:
    """Of a file too, if it is one of Python's own; nothing of the user's is called."""
    if type(target) is str:
        return os.path.abspath(target)
    if isinstance(target, os.PathLike) and type(target).__module__.startswith("pathlib"):
        return os.path.abspath(str(target))
    name = getattr(target, "name", None) if type(target).__module__ == "_io" else None
    return str(os.path.abspath(name)) if type(name) is str else f"<{type(target).__name__}>"


_counted: list[None] = []
