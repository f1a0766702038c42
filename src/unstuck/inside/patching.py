"""Replaces one attribute by a wrapper that looks like the original, and back."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

Undo = Callable[[], None]


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Undo:
    """Put `make(original)` where the original was. The undo leaves alone what somebody else has put there since."""
    namespace = vars(owner)
    if name not in namespace:
        return lambda: None
    original = namespace[name]
    called = original.__func__ if isinstance(original, (staticmethod, classmethod)) else original
    wrapper = make(called)
    if not hasattr(wrapper, "__wrapped__"):  # else it is the wrapper of the same under another name
        wrapper = functools.update_wrapper(wrapper, called)
    placed = type(original)(wrapper) if called is not original else wrapper
    setattr(owner, name, placed)

    def undo() -> None:
        if vars(owner).get(name) is placed:
            setattr(owner, name, original)

    return undo


def replace_everywhere(module: Any, name: str, make: Callable[[Any], Any]) -> Undo:
    """The same, and in all modules that have taken it over by its name."""
    original = vars(module).get(name)
    undo = replace(module, name, make)
    if original is None:
        return undo
    wrapper = vars(module)[name]
    modules = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType) and one is not module]
    others = [one for one in modules if vars(one).get(name) is original]
    return together(undo, *(replace(one, name, lambda _: wrapper) for one in others))


def together(*undos: Undo) -> Undo:
    def undo() -> None:
        for one in undos:
            one()

    return undo
