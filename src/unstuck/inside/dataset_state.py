"""A dataset at the beginning of a pass: its whole numbers, and the state of every random generator it can draw from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from .describe import attributes_of
from .guard import is_ours

MANY = 16  # numbers, and generators
DEEP = 4
LOOKED_AT = 256  # attributes, and attributes of attributes
LARGE = 1 << 53


def numbers(dataset: Any) -> dict[str, int]:
    """Whole numbers among its attributes, and among those of the datasets it wraps."""
    found: dict[str, int] = {}
    for name, value in _attributes(dataset):
        if type(value) is int and abs(value) < LARGE:
            found[name] = value
        if len(found) == MANY:
            break
    return found


def generators(dataset: Any) -> dict[str, str]:
    """What stands for the state of each generator: the dataset's own, and the global ones."""
    known = {**dict(list(_own_ones(dataset).items())[:MANY]), **_global_ones()}
    return {name: state for name, value in known.items() if (state := _state_of(value))}


def _own_ones(dataset: Any) -> dict[str, Any]:
    """Those among its attributes, and in what these hold: augmentations often have one of their own."""
    found: dict[str, Any] = {}
    waiting = [(f"self.{name}", value, 0) for name, value in _attributes(dataset)]
    for _ in range(LOOKED_AT):
        if not waiting:
            break
        name, value, depth = waiting.pop(0)
        if _is_generator(value):
            found[name] = value
        elif depth < DEEP:
            waiting += [(inner, one, depth + 1) for inner, one in _inside(name, value)]
    return found


def _inside(name: str, value: Any) -> list[tuple[str, Any]]:
    if type(value) in (list, tuple) and len(value) <= MANY:
        return [(f"{name}[{number}]", one) for number, one in enumerate(value)]
    if type(value).__module__.partition(".")[0] in ("torch", "numpy", "builtins"):
        return []
    return [(f"{name}.{key}", one) for key, one in list(attributes_of(value).items())[:MANY]]


def _attributes(dataset: Any) -> Iterator[tuple[str, Any]]:
    prefix = ""
    for _ in range(DEEP):  # Subset and the like hold the user's dataset
        own = attributes_of(dataset)
        for name, value in list(own.items()):
            yield prefix + name, value
        inner = own.get("dataset")
        if inner is None:
            return
        dataset, prefix = inner, f"{prefix}dataset."


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
