"""What of a loader, or of a batch, cannot be sent to another process. Nothing is pickled: it is told by the types."""

from __future__ import annotations

import types
from collections import defaultdict
from itertools import islice
from typing import Any, NamedTuple

from ..core.objects import attributes_of
from ..failures.exceptions import message_of

MANY, DEEP, SHOWN = 400, 4, 4
SENT = ("dataset", "collate_fn", "worker_init_fn")
WORDS = ("pickle", "serialize", "get local object")
# Modules whose objects stand for something that only this process has.
LIVE = ("_thread", "socket", "ssl", "sqlite3", "_io", "h5py", "lmdb", "mmap", "select", "_queue")


def culprits(loader: Any, error: Exception) -> list[str]:
    """By name, those that the error speaks of first. Empty: it is no error of pickling, or nothing stands out."""
    own = attributes_of(loader)
    return [str(one) for one in _found({name: own.get(name) for name in SENT}, error)]


def culprits_of_batch(batch: Any, error: Exception) -> dict[str, Any]:
    """The same of a batch that a worker could not send, and where the first of them is written, if it is a function."""
    found = _found({"batch": batch}, error)
    written = next((one.where for one in found if one.where is not None), None)
    return {"unpicklable": [str(one) for one in found], "culprit": written}


class Culprit(NamedTuple):
    """One thing that cannot be sent."""

    name: str
    said: str
    word: str  # by which an error would name it
    where: dict[str, Any] | None

    def __str__(self) -> str:
        return f"{self.name} ({self.said})"


def _found(sent: dict[str, Any], error: Exception) -> list[Culprit]:
    text = message_of(error)
    if not any(word in text.lower() for word in WORDS):
        return []
    found: list[Culprit] = []
    for name, value in sent.items():
        _search(name, value, found)
    found.sort(key=lambda one: one.word not in text)
    return found[:SHOWN]


def _search(start: str, first: Any, found: list[Culprit]) -> None:
    waiting = [(start, first, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MANY:
        name, value, depth = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        reason = _reason(value)
        if reason:
            found.append(Culprit(name, *reason, _written(value)))
        elif depth < DEEP:
            waiting += [(inner, one, depth + 1) for inner, one in _inside(name, value)]


def _inside(name: str, value: Any) -> list[tuple[str, Any]]:
    if issubclass(type(value), dict):  # a defaultdict's own function is what it is mostly about
        factory = [(f"{name}.default_factory", value.default_factory)] if type(value) is defaultdict else []
        return factory + [(f"{name}[{_key(key)}]", one) for key, one in islice(dict.items(value), 16)]
    plain = next((one for one in (list, tuple) if issubclass(type(value), one)), None)
    if plain is not None:
        return [(f"{name}[{number}]", one) for number, one in enumerate(islice(plain.__iter__(value), 16))]
    return [(f"{name}.{key}", one) for key, one in list(attributes_of(value).items())[:64]]


def _key(key: object) -> str:
    """Only of types whose text is no code of the user's."""
    return repr(key)[:80] if type(key) in (str, int, float, bool) else type(key).__name__


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
    if kind.__module__ == "torch" and kind.__name__ == "Tensor" and value.requires_grad and not value.is_leaf:
        return "a tensor that was computed with gradients on", "requires_grad"
    if kind is not types.MethodType and "<locals>" in kind.__qualname__:
        return f"of the class {kind.__qualname__}, defined inside a function", kind.__qualname__
    return None


def _written(value: Any) -> dict[str, Any] | None:
    code = value.__code__ if type(value) is types.FunctionType else None
    if code is None:
        return None
    return {"file": code.co_filename, "line": code.co_firstlineno, "function": value.__qualname__}
