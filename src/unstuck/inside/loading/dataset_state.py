"""A dataset at the beginning of a pass: its whole numbers, and the state of every random generator it can draw from.

Only numbers count that fetching a sample can depend on: those that the code mentions which fetches.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any
from zlib import crc32

from ..core.guard import is_ours
from ..core.objects import held

MANY = 16  # numbers, and generators
LARGE = 1 << 53

FETCHING = ("__getitem__", "__getitems__", "__iter__", "__next__")
MANY_FUNCTIONS = 100  # functions that are looked at


def numbers(dataset: Any) -> dict[str, int]:
    """Whole numbers that fetching a sample can depend on: the code that fetches mentions them."""
    found: dict[str, int] = {}
    for name, value, owner in held(dataset):
        if type(value) is int and abs(value) < LARGE and name.rpartition(".")[2] in _mentions(owner):
            found[name] = value
        if len(found) == MANY:
            break
    return found


def generators(dataset: Any) -> dict[str, str]:
    """What stands for the state of each generator: the dataset's own, and the global ones."""
    own = {f"self.{name}": value for name, value, _ in held(dataset) if _is_generator(value)}
    known = {**dict(list(own.items())[:MANY]), **_global_ones()}
    return {name: state for name, value in known.items() if (state := _state_of(value))}


def _is_generator(value: Any) -> bool:
    kind = type(value)
    return (kind.__module__.partition(".")[0], kind.__name__) in (
        ("random", "Random"),
        ("numpy", "Generator"),
        ("numpy", "RandomState"),
        ("torch", "Generator"),
        ("torch._C", "Generator"),
    )


def _global_ones() -> dict[str, Any]:
    found: dict[str, Any] = {}
    random, numpy, torch = (sys.modules.get(name) for name in ("random", "numpy.random", "torch"))
    if random is not None:
        found["random"] = random._inst
    if numpy is not None:
        found["numpy"] = numpy.mtrand._rand
    if torch is not None:
        found["torch"] = torch.default_generator
    return found


def _state_of(value: Any) -> str:
    """Read without taking the generator's lock: after a fork nobody might ever let go of it."""
    try:
        kind = type(value).__name__
        if kind == "Random":
            state = repr(value.getstate()).encode()
        elif type(value).__module__.startswith("numpy"):
            bits = getattr(value, "bit_generator", None) or value._bit_generator
            state = _flat(bits.state)
        else:
            state = value.get_state().numpy().tobytes()
    except Exception as error:
        if not is_ours(error):
            raise
        return ""
    return f"{type(value).__module__.partition('.')[0]}.{kind} {crc32(state):08x}"


def _flat(state: Any) -> bytes:
    """numpy shortens long arrays where it prints them."""
    if isinstance(state, dict):
        return b"".join(_flat(one) for one in state.values())
    return bytes(state.tobytes()) if hasattr(state, "tobytes") else repr(state).encode()


def _mentions(owner: Any) -> frozenset[str]:
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
    while waiting and len(seen) < MANY_FUNCTIONS:
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
