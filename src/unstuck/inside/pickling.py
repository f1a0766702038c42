"""What of a loader cannot be sent to workers that are not forked. Nothing is pickled: it is told by the types."""

from __future__ import annotations

import types
from typing import Any

from .exceptions import message_of
from .holdings import attributes_of

MANY, DEEP, SHOWN = 400, 4, 4
SENT = ("dataset", "collate_fn", "worker_init_fn")
WORDS = ("pickle", "serialize", "get local object")
# Modules whose objects stand for something that only this process has.
LIVE = ("_thread", "socket", "ssl", "sqlite3", "_io", "h5py", "lmdb", "mmap", "select", "_queue")


def culprits(loader: Any, error: Exception) -> list[str]:
    """By name, those that the error speaks of first. Empty: it is no error of pickling, or nothing stands out."""
    text = message_of(error)
    if not any(word in text.lower() for word in WORDS):
        return []
    own = attributes_of(loader)
    found: list[tuple[str, str, str]] = []
    for name in SENT:
        _search(name, own.get(name), found)
    found.sort(key=lambda one: not _speaks_of(text, one))
    return [f"{name} ({said})" for name, said, _ in found[:SHOWN]]


def _search(start: str, first: Any, found: list[tuple[str, str, str]]) -> None:
    waiting = [(start, first, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MANY:
        name, value, depth = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        reason = _reason(value)
        if reason:
            found.append((name, *reason))
        elif depth < DEEP:
            waiting += [(inner, one, depth + 1) for inner, one in _inside(name, value)]


def _inside(name: str, value: Any) -> list[tuple[str, Any]]:
    if type(value) is dict:
        return [(f"{name}[{key!r}]"[:80], one) for key, one in list(value.items())[:16]]
    if type(value) in (list, tuple):
        return [(f"{name}[{number}]", one) for number, one in enumerate(value[:16])]
    return [(f"{name}.{key}", one) for key, one in list(attributes_of(value).items())[:64]]


def _reason(value: Any) -> tuple[str, str] | None:
    """How it is called and by which word an error would name it. None: it can be pickled, or nobody knows."""
    kind = type(value)
    if issubclass(kind, (types.FunctionType, type)):
        name = value.__qualname__
        if "<locals>" in name or "<lambda>" in name:
            what = "a lambda" if name.endswith("<lambda>") else "defined inside a function"
            return f"{what}, {name}", name
        return None
    if issubclass(kind, (types.GeneratorType, types.ModuleType)) or kind.__module__.partition(".")[0] in LIVE:
        return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."), kind.__name__
    if kind is not types.MethodType and "<locals>" in kind.__qualname__:
        return f"of the class {kind.__qualname__}, defined inside a function", kind.__qualname__
    return None


def _speaks_of(text: str, one: tuple[str, str, str]) -> bool:
    return one[2] in text
