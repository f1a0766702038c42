"""Functions that multiprocessing runs in a process of their own: how they end."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .. import format as f
from ..core.guard import Guard, Undo, clean, replace
from ..core.process import process
from ..failures import exceptions

MODULES = ("multiprocessing.process",)
OWES = (f.Kind.EXCEPTION,)


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.parent_process() is not None:  # this one is such a process, and its function is running already
        guard.quietly(_look_at_the_end, guard)
    return replace(module.BaseProcess, "run", lambda original: _run(original, guard))


def _look_at_the_end(guard: Guard) -> None:
    """multiprocessing calls this when the function has ended. An exception is still on its way up then."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, guard.quietly, args=(_ended,), exitpriority=1000)


def _ended() -> None:
    error = sys.exc_info()[1]
    if not isinstance(error, Exception):
        process.ended(f.ENDED_RUN)
    elif process.ended_by != exceptions.identity(error):  # else it was met on its way
        exceptions.uncaught(error)
        process.conclude()


def _run(original: Any, guard: Guard) -> Any:
    def run(self: Any) -> None:
        try:
            original(self)
        except Exception as error:
            guard.quietly(exceptions.uncaught, error)
            guard.quietly(process.conclude)
            clean(error)
            raise
        guard.quietly(process.ended, f.ENDED_RUN)

    return run
