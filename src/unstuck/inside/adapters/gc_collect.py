"""`gc.collect()` as the user's code calls it: how long it took, and at which line. Python's own come by themselves."""

from __future__ import annotations

from types import ModuleType

from ..core.garbage import WHAT
from ..core.guard import Guard, Undo, replace
from ..format import Kind
from ..side_work.calls import timed

MODULES = ("gc",)
OWES = (Kind.CALL,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module, "collect", lambda original: timed(original, WHAT, "gc.collect", guard))
