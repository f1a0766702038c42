"""`torch.save`: what was saved, how long it took and how large it was, or why it failed.

Each tensor that `torch.distributed.checkpoint` saves by it is none, nor what Lightning puts into memory before it
writes it to a file: whole checkpoints of theirs have their own adapters.
"""

from __future__ import annotations

import os
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace_everywhere
from ..format import Kind
from ..side_work.saves import saves

MODULES = ("torch.serialization",)
OWES = (Kind.SAVE,)
LIGHTNING = "_atomic_save"
PART = os.path.join("torch", "distributed", "checkpoint", "")


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace_everywhere(module, "save", lambda original: saves(original, _target, 0, guard))


def _target(frame: FrameType, *args: Any, **kwargs: Any) -> object:
    return None if is_part(frame) else args[1] if len(args) > 1 else kwargs.get("f")


def is_part(frame: FrameType) -> bool:
    """Called by torch.distributed.checkpoint itself, or by Lightning on its way to a file."""
    code = frame.f_code
    return PART in code.co_filename or (code.co_name == LIGHTNING and code.co_filename.endswith("cloud_io.py"))
