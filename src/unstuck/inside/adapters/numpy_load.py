"""`numpy.load`, as a stage of loading a sample."""

from __future__ import annotations

from types import ModuleType

from ..format import Kind
from ..guard import Guard
from ..patching import Undo, replace
from ..stages import timed

MODULES = ("numpy",)
OWES = (Kind.STAGE, Kind.STAGE_CPU, Kind.SLOWEST)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module, "load", lambda original: timed(original, "read (numpy.load)", guard))
