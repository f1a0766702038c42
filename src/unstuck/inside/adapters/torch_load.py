"""`torch.load`, as a stage of loading a sample. A checkpoint that is loaded in the main process is none."""

from __future__ import annotations

from types import ModuleType

from ..format import Kind
from ..guard import Guard
from ..patching import Undo, replace_everywhere
from ..stages import timed

MODULES = ("torch.serialization",)
OWES = (Kind.STAGE,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace_everywhere(module, "load", lambda original: timed(original, "read (torch.load)", guard))
