"""`torch.nn.Module`: when models are made, and whether they are to train or to be evaluated (`eval` calls `train`)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import models
from ..format import Kind
from ..guard import Guard, clean
from ..modes import modes
from ..patching import Undo, replace, together

MODULES = ("torch.nn.modules.module",)
OWES = (Kind.ITERATOR,)  # whose modes it is that this brings


def install(module: ModuleType, guard: Guard) -> Undo:
    return together(
        replace(module.Module, "train", lambda original: _train(original, module.torch, guard)),
        models.install(module, guard),
    )


def _train(original: Any, torch: Any, guard: Guard) -> Any:
    inside = False  # a module sets all its parts: only the outermost call says what is wanted

    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        # Dynamo takes the question for a constant, so that it never sees what is ours. torch 2.2 cannot be asked.
        if inside or getattr(torch.compiler, "is_compiling", bool)():
            return original(self, *args, **kwargs)
        inside = True
        try:
            result = original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        finally:
            inside = False
        guard.quietly(modes.set, self, args[0] if args else kwargs.get("mode", True))
        return result

    return train
