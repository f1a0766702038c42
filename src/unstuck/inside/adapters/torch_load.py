"""`torch.load`, as a stage of loading a sample. A checkpoint that is loaded in the main process is none."""

from __future__ import annotations

from types import ModuleType

from ..core.guard import Guard, Undo, replace_everywhere
from ..format import Kind
from ..loading.readers import timed_reader

MODULES = ("torch.serialization",)
OWES = (Kind.STAGE,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace_everywhere(module, "load", lambda original: timed_reader(original, "read (torch.load)", guard))
