"""`numpy.load`, as a stage of loading a sample."""

from __future__ import annotations

from types import ModuleType

from ..core.guard import Guard, Undo, replace
from ..format import Kind
from ..loading.readers import timed_reader

MODULES = ("numpy",)
OWES = (Kind.STAGE, Kind.STAGE_CPU, Kind.SLOWEST)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module, "load", lambda original: timed_reader(original, "read (numpy.load)", guard))
