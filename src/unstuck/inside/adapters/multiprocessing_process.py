"""Functions run in a process of their own, by multiprocessing or `torch.multiprocessing.spawn`: how they end."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import exceptions
from .. import format as f
from ..guard import Guard, clean
from ..patching import Undo, replace
from ..process import process

MODULES = ("multiprocessing.process", "torch.multiprocessing.spawn")
OWES = (f.Kind.EXCEPTION,)


def install(module: ModuleType, guard: Guard) -> Undo:
    if hasattr(module, "BaseProcess"):
        return replace(module.BaseProcess, "run", lambda original: _run(original, guard))
    return replace(module, "_wrap", lambda original: _wrap(original, guard))


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


def _wrap(original: Any, guard: Guard) -> Any:
    """`spawn` catches what its function raises, so it is met inside."""

    def _wrap(fn: Any, *args: Any) -> None:
        original(_Met(fn, guard), *args)

    return _wrap


class _Met:
    def __init__(self, function: Any, guard: Guard) -> None:
        self.function = function
        self.guard = guard

    def __call__(self, *args: Any) -> None:
        try:
            self.function(*args)
        except Exception as error:
            self.guard.quietly(exceptions.uncaught, error)
            clean(error)
            raise
