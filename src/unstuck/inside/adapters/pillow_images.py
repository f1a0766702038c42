"""Pillow: opening an image, and reading and decoding its pixels, as stages of loading a sample."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace
from ..format import Kind
from ..loading.readers import timed_reader

MODULES = ("PIL.Image", "PIL.ImageFile")
OWES = (Kind.STAGE,)


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.__name__ == "PIL.Image":
        return replace(module, "open", lambda original: timed_reader(original, "read (Image.open)", guard))
    return replace(module.ImageFile, "load", lambda original: _load(original, guard))


def _load(original: Any, guard: Guard) -> Any:
    """Whatever is done with an image asks for its pixels first; only the first time is there something to do."""
    decode = timed_reader(original, "decode (Image.load)", guard)

    @functools.wraps(original)
    def load(self: Any) -> Any:
        return decode(self) if getattr(self, "tile", None) else original(self)

    return load
