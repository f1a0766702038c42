"""`gc.collect()` as the user's code calls it: how long it took, and at which line. Python's own come by themselves."""

from __future__ import annotations

from types import ModuleType

from ..calls import timed
from ..format import Kind
from ..garbage import WHAT
from ..guard import Guard
from ..patching import Undo, replace

MODULES = ("gc",)
OWES = (Kind.CALL,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module, "collect", lambda original: timed(original, WHAT, "gc.collect", guard))
