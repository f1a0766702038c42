"""Which attributes an object's code can read while a sample is fetched, as far as their names are written there."""

from __future__ import annotations

from types import CodeType
from typing import Any

FETCHING = ("__getitem__", "__getitems__", "__iter__", "__next__")
MANY = 100  # functions that are looked at


def mentioned(owner: Any) -> frozenset[str]:
    """By the functions that fetch, and by those of the same class that they mention; by all, where none fetches."""
    kind = type(owner)
    known = _known.get(kind)
    if known is None:
        known = _known[kind] = _names(kind)
    return known


def _names(kind: type) -> frozenset[str]:
    found: set[str] = set()
    fetching = [name for name in FETCHING if _codes(kind, name)]
    waiting = fetching or [name for base in kind.__mro__[:-1] for name in vars(base)]
    seen: set[str] = set()
    while waiting and len(seen) < MANY:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for code in _codes(kind, name):
            found.update(code.co_names)
            waiting += code.co_names
    return frozenset(found)


def _codes(kind: type, name: str) -> list[CodeType]:
    """Of a method or property, wherever in the class's ancestry it is, with the functions inside it."""
    value = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    first = getattr(value, "__code__", None)
    waiting, found = [first], []
    while waiting:
        code = waiting.pop()
        if isinstance(code, CodeType):
            found.append(code)
            waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


_known: dict[type, frozenset[str]] = {}
