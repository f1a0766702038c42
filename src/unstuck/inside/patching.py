"""Replaces one attribute by a wrapper that looks like the original, and back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Undo = Callable[[], None]


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Undo:
    """Put `make(original)` where the original was. The undo leaves alone what somebody else has put there since."""
    namespace = vars(owner)
    if name not in namespace:
        return lambda: None
    original = namespace[name]
    called = original.__func__ if isinstance(original, (staticmethod, classmethod)) else original
    wrapper = functools.update_wrapper(make(called), called)
    placed = type(original)(wrapper) if called is not original else wrapper
    setattr(owner, name, placed)

    def undo() -> None:
        if vars(owner).get(name) is placed:
            setattr(owner, name, original)

    return undo


def together(*undos: Undo) -> Undo:
    def undo() -> None:
        for one in undos:
            one()

    return undo
