"""Functions run in a process of their own, by multiprocessing or `torch.multiprocessing.spawn`: how they end."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import exceptions
from .. import format as f
from ..guard import Guard, clean, quietly
from ..patching import Undo, replace
from ..process import process

MODULES = ("multiprocessing.process", "torch.multiprocessing.spawn")
OWES = (f.Kind.EXCEPTION,)


def install(module: ModuleType, guard: Guard) -> Undo:
    if hasattr(module, "BaseProcess"):
        return replace(module.BaseProcess, "run", _run)
    return replace(module, "_wrap", _wrap)


def _run(original: Any) -> Any:
    def run(self: Any) -> None:
        try:
            original(self)
        except Exception as error:
            quietly(exceptions.uncaught, error)
            clean(error)
            raise
        process.ended(f.ENDED_RUN)

    return run


def _wrap(original: Any) -> Any:
    """`spawn` catches what its function raises, so it is met inside."""

    def _wrap(fn: Any, *args: Any) -> None:
        original(_Met(fn), *args)

    return _wrap


class _Met:
    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any) -> None:
        try:
            self.function(*args)
        except Exception as error:
            quietly(exceptions.uncaught, error)
            clean(error)
            raise
