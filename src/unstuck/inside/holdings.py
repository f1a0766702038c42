"""What a dataset holds: its attributes, and those of the datasets, augmentations and settings inside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DEEP = 4
MANY = 256  # values that are looked at
WIDE = 16  # items of a list or dict, beyond which it is data
LIBRARIES = ("torch", "numpy", "builtins")  # whose objects hold nothing of interest; torch's datasets hold the user's


def held(dataset: Any) -> Iterator[tuple[str, Any, Any]]:
    """The name of each value, the value, and the object whose attribute it is. The nearest come first."""
    waiting: list[tuple[str, Any, Any, int]] = _inside("", dataset, dataset, 0)
    for _ in range(MANY):
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
    return [(f"{prefix}{key}", one, value, depth + 1) for key, one in list(attributes_of(value).items())[:MANY]]


def attributes_of(value: object) -> dict[str, Any]:
    """What lies in an object itself: no property and no `__getattr__` of the user's is asked."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}
