"""safetensors' `save_file` for torch: what transformers, accelerate and diffusers write their models with."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace_everywhere
from ..format import SAVED_SAFETENSORS, Kind
from ..side_work.saves import saves

MODULES = ("safetensors.torch",)
OWES = (Kind.SAVE,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace_everywhere(module, "save_file", lambda original: saves(original, _target, SAVED_SAFETENSORS, guard))


def _target(frame: FrameType, *args: Any, **kwargs: Any) -> object:  # noqa: ARG001  (what `saves` hands over)
    return args[1] if len(args) > 1 else kwargs.get("filename")
