"""Weights & Biases' `run.log`: scalars that are named like a loss."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..format import Kind
from ..guard import Guard, clean
from ..patching import Undo, replace
from ..values import told_by_logger

MODULES = ("wandb.sdk.wandb_run",)
OWES = (Kind.METRIC,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.Run, "log", lambda original: _log(original, guard))


def _log(original: Any, guard: Guard) -> Any:
    def log(self: Any, *args: Any, **kwargs: Any) -> Any:
        data = args[0] if args else kwargs.get("data")
        step = args[1] if len(args) > 1 else kwargs.get("step")
        guard.quietly(_scalars, data, step)  # before: wandb may take the dict apart
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise

    return log


def _scalars(data: object, step: object) -> None:
    if type(data) is dict:
        for name, value in list(data.items()):
            told_by_logger(name, value, step)
