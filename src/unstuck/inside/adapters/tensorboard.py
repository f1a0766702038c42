"""TensorBoard's `SummaryWriter.add_scalar`, torch's and tensorboardX's: scalars that are named like a loss."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..format import Kind
from ..guard import Guard, clean
from ..patching import Undo, replace
from ..values import told_by_logger

MODULES = ("torch.utils.tensorboard.writer", "tensorboardX.writer")
OWES = (Kind.METRIC,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.SummaryWriter, "add_scalar", lambda original: _add_scalar(original, guard))


def _add_scalar(original: Any, guard: Guard) -> Any:
    def add_scalar(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        names = ("tag", "scalar_value", "global_step")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        guard.quietly(told_by_logger, *(given.get(name) for name in names))
        return result

    return add_scalar
