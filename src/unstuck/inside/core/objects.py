"""What may be known of the user's objects without running any code of theirs: attributes, paths, names, identity."""

from __future__ import annotations

import json
import os
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

DEEP = 4
MANY_VALUES = 256  # values that are looked at
WIDE = 16  # items of a list or dict, beyond which it is data
LIBRARIES = ("torch", "numpy", "builtins")  # whose objects hold nothing of interest; torch's datasets hold the user's

T = TypeVar("T")

PYTHONS = ("_io", "tempfile")  # whose file objects can be asked for their name

MANY_CONTAINERS = 8  # containers that are told
LISTS = (list, tuple)
PATH = re.compile(r"(/|\w+://).+|\S*/\S+|\S+\.[A-Za-z]\w{0,9}")  # absolute, with a folder, or with an extension


def held(dataset: Any) -> Iterator[tuple[str, Any, Any]]:
    """The name of each value, the value, and the object whose attribute it is. The nearest come first."""
    waiting: list[tuple[str, Any, Any, int]] = _inside("", dataset, dataset, 0)
    for _ in range(MANY_VALUES):
        if not waiting:
            return
        name, value, owner, depth = waiting.pop(0)
        yield name, value, owner
        if depth < DEEP:
            waiting += _inside(name, value, owner, depth)


def _inside(name: str, value: Any, owner: Any, depth: int) -> list[tuple[str, Any, Any, int]]:
    kind = type(value)
    if kind in (list, tuple) and len(value) <= WIDE:
        return [(f"{name}[{number}]", one, owner, depth + 1) for number, one in enumerate(value)]
    if kind is dict and len(value) <= WIDE:
        return [(f"{name}[{key!r}]"[:80], one, owner, depth + 1) for key, one in list(value.items())]
    if kind.__module__.partition(".")[0] in LIBRARIES and not kind.__module__.startswith("torch.utils.data"):
        return []
    prefix = f"{name}." if name else ""
    return [(f"{prefix}{key}", one, value, depth + 1) for key, one in list(attributes_of(value).items())[:MANY_VALUES]]


def attributes_of(value: object) -> dict[str, Any]:
    """What lies in an object itself: no property and no `__getattr__` of the user's is asked."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def key_name(key: object) -> str:
    if type(key) is tuple and all(type(one) in (int, str, float) for one in key):
        return "x".join(map(str, key))
    return str(key)[:80] if type(key) in (str, int, float) else type(key).__name__


class ByIdentity(Generic[T]):
    def __init__(self, when_gone: Callable[[T], None] | None = None) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], T]] = {}
        self._when_gone = when_gone

    def __len__(self) -> int:
        return len(self._known)

    def get(self, owner: object) -> T | None:
        found = self._known.get(id(owner))
        if found is not None and found[0]() is owner:
            return found[1]
        self._forget_gone()
        return None

    def set(self, owner: object, value: T) -> None:
        self._forget_gone()
        self._known[id(owner)] = (weakref.ref(owner), value)

    def owners(self) -> list[Any]:
        living = [known() for known, _ in list(self._known.values())]
        return [owner for owner in living if owner is not None]

    def _forget_gone(self) -> None:
        for number, (known, value) in list(self._known.items()):
            if known() is None and self._known.pop(number, None) is not None and self._when_gone is not None:
                self._when_gone(value)


def path_of(target: object) -> str:
    """Absolute; an address as it is; the type in angle brackets where there is neither."""
    if type(target) is str:
        return target if "://" in target else os.path.abspath(target)
    if isinstance(target, os.PathLike) and type(target).__module__.startswith("pathlib"):
        return os.path.abspath(str(target))
    name = getattr(target, "name", None) if type(target).__module__ in PYTHONS else None
    return os.path.abspath(name) if type(name) is str else f"<{type(target).__name__}>"


def files_of(dataset: Any) -> dict[str, int]:
    """How many files each has. Its first and its last item stand for all."""
    found: dict[str, int] = {}
    for name, value, _ in held(dataset):
        if type(value) in LISTS and value and is_path(value[0]) and is_path(value[-1]):
            found[name] = len(value)
        if len(found) == MANY_CONTAINERS:
            break
    return found


def is_path(value: Any) -> bool:
    if type(value) is str:
        return len(value) < 4096 and PATH.fullmatch(value) is not None
    return type(value).__module__.partition(".")[0] in ("pathlib", "upath") and hasattr(type(value), "parts")


def as_json(facts: dict[str, Any], default: Callable[[Any], Any]) -> str:
    """Python writes `Infinity` and `NaN`, which are no JSON: a dataset with `best = float("inf")` has them as text."""
    text = json.dumps(facts, ensure_ascii=False, default=default)
    if "Infinity" not in text and "NaN" not in text:
        return text
    return json.dumps(json.loads(text, parse_constant=str), ensure_ascii=False)
