"""Changes every text inside of a struct, a list or a dict, however deep: to hide secrets, or to make it printable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def _never(_: str) -> bool:
    return False


def every_text(value: T, change: Callable[[str], str], hide: Callable[[str], bool] = _never, hidden: str = "") -> T:
    """A copy in which every text is changed. A text under a key for which `hide` says so is replaced by `hidden`."""
    known: dict[str, str] = {}

    def changed(text: str) -> str:
        found = known.get(text)
        if found is None:
            found = known[text] = change(text)
        return found

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            return changed(part)
        if isinstance(part, msgspec.Struct):
            return _struct(part, walk)
        if isinstance(part, dict):
            return {
                walk(key): hidden if isinstance(it, str) and hide(str(key)) else walk(it) for key, it in part.items()
            }
        if isinstance(part, (list, tuple)):
            return _sequence(part, walk)
        return part

    found: T = walk(value)
    return found


def _struct(part: msgspec.Struct, walk: Callable[[Any], Any]) -> msgspec.Struct:
    """The same object where nothing in it changes: evidence may have a hundred thousand of them."""
    changes = {}
    for name in part.__struct_fields__:
        before = getattr(part, name)
        if before is None or isinstance(before, (int, float)):
            continue
        after = walk(before)
        if after is not before and after != before:
            changes[name] = after
    return msgspec.structs.replace(part, **changes) if changes else part


def _sequence(part: Any, walk: Callable[[Any], Any]) -> Any:
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(walk, part))
    return type(part)(map(walk, part)) if type(part) in (list, tuple) else [walk(one) for one in part]
