"""`torch.cuda.synchronize`: how long the main thread stood still until the GPU had caught up.

On machines without a GPU the call fails, which is all that could be tried here.
"""

from __future__ import annotations

from types import ModuleType

from ..core.guard import Guard, Undo, replace
from ..format import Kind
from ..side_work.calls import timed

MODULES = ("torch.cuda",)
OWES = (Kind.CALL,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(
        module, "synchronize", lambda original: timed(original, "synchronize", "torch.cuda.synchronize", guard)
    )
