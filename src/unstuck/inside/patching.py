"""Replaces one attribute by a wrapper that looks like the original, and back."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
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
    _looks_like(called, wrapper)
    placed = type(original)(wrapper) if called is not original else wrapper
    setattr(owner, name, placed)

    def undo() -> None:
        if vars(owner).get(name) is placed:
            setattr(owner, name, original)

    return undo


def _looks_like(original: Any, wrapper: Any) -> None:
    """As far as it goes: who asks for arguments without following `__wrapped__`, as getfullargspec does, gets them too.

    `__code__` stays the wrapper's own. Constructors show their defaults as well: frameworks make loaders again by them.
    """
    if not isinstance(original, FunctionType) or not isinstance(wrapper, FunctionType):
        return
    if "__signature__" not in vars(wrapper):
        wrapper.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    if original.__name__ == "__init__" and wrapper.__code__.co_flags & inspect.CO_VARARGS:
        wrapper.__defaults__, wrapper.__kwdefaults__ = original.__defaults__, original.__kwdefaults__


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
