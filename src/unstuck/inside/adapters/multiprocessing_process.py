"""Functions that multiprocessing runs in a process of their own: how they end."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import exceptions
from .. import format as f
from ..guard import Guard, clean
from ..patching import Undo, replace
from ..process import process

MODULES = ("multiprocessing.process",)
OWES = (f.Kind.EXCEPTION,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.BaseProcess, "run", lambda original: _run(original, guard))


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
