"""Whether a pass over a loader begins with gradients off, or with the model set to evaluate: then it validates.

A frozen part of a model, or a teacher beside it, is set to evaluate too, and the pass trains. So only the model itself
counts: the one that was set to train last, or any if none ever was; and only once there were optimizer steps. No
reference of ours keeps it alive.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from .format import MODE_EVAL, MODE_NO_GRAD
from .holdings import attributes_of
from .process import process

WRAPPERS = ("module", "_orig_mod")  # under which DDP and torch.compile hold the model that they were given
DEEP = 4


class Modes:
    """Of this process."""

    __slots__ = ("evaluated", "pid", "trained")

    def __init__(self) -> None:
        self.trained: weakref.ref[Any] | None = None
        self.evaluated: weakref.ref[Any] | None = None
        self.pid = 0  # of the process that has set it to evaluate: a fork begins anew

    def set(self, module: Any, training: bool) -> None:
        """A model was set to train or to evaluate by a call that is no part of another such call."""
        if training:
            self.trained, self.evaluated = weakref.ref(module), None
        elif process.optimizer_steps and self._is_trained(module):
            self.evaluated, self.pid = weakref.ref(module), process.pid

    def _is_trained(self, module: Any) -> bool:
        trained = self.trained() if self.trained is not None else None
        return trained is None or _unwrapped(module) is _unwrapped(trained)

    def bits(self) -> int:
        torch: Any = sys.modules.get("torch")
        found = 0 if torch is None or torch.is_grad_enabled() else MODE_NO_GRAD
        module = self.evaluated() if self.evaluated is not None and self.pid == process.pid else None
        # Lightning sets `training` back by itself, module by module.
        if module is not None and not attributes_of(module).get("training", False):
            found |= MODE_EVAL
        return found


def _unwrapped(module: Any) -> Any:
    for _ in range(DEEP):
        parts = attributes_of(module).get("_modules") or {}
        inner = next((parts[name] for name in WRAPPERS if parts.get(name) is not None), None)
        if inner is None or not type(module).__module__.startswith("torch."):
            return module
        module = inner
    return module


modes = Modes()
