"""Describes a graph of torchdata's nodes from what lies open in their attributes, as if it were one loader."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from .describe import type_name, user_line
from .holdings import attributes_of

MANY = 64  # nodes that are looked at
SOURCES = ("source", "root", "sources", "source_nodes", "_it", "loader")  # what a node holds further nodes in


def describe_nodes(loader: Any) -> dict[str, Any]:
    """As `describe.describe_loader` does of a DataLoader."""
    found = list(nodes(loader))
    own = {type(one).__name__: attributes_of(one) for one in found}
    mappers = [attributes_of(one) for one in found if type(one).__name__ == "ParallelMapper"]
    mapper = max(mappers, key=lambda one: one.get("num_workers") or 0, default={})
    prefetcher = own.get("Prefetcher", {})
    data = _dataset(found)
    return {
        "type": type_name(loader),
        "batch_size": own.get("Batcher", {}).get("batch_size"),
        "drop_last": own.get("Batcher", {}).get("drop_last"),
        "num_workers": mapper.get("num_workers") or 0,
        "in_order": mapper.get("in_order", True),
        "prefetch_factor": prefetcher.get("prefetch_factor"),
        "context": mapper.get("method"),
        "created": user_line(sys._getframe(1)),
        "dataset": type_name(data),
        "dataset_inner": type_name(data),
        "iterable": True,
        "reads_at": _code(data) or _code(mapper.get("map_fn")),
        "attributes": {"nodes": " < ".join(type(one).__name__ for one in found[:8])},
    }


def nodes(loader: Any) -> Iterator[Any]:
    """From the root on, each once."""
    waiting, met = [loader], set()
    for _ in range(MANY):
        if not waiting:
            return
        one = waiting.pop(0)
        if id(one) in met:
            continue
        met.add(id(one))
        if one is not loader and type(one).__module__ != "torchdata.nodes.loader":
            yield one
        for name, value in attributes_of(one).items():
            if name in SOURCES and value is not None:
                waiting += _several(value)


def processes_of(loader: Any) -> tuple[Any, ...]:
    """Worker processes of its mappers, now. Threads have no pid."""
    found = [each for one in nodes(loader) for each in attributes_of(one).get("_workers") or ()]
    return tuple(each for each in found if getattr(each, "pid", None) is not None)


def _several(value: Any) -> list[Any]:
    if type(value) in (list, tuple):
        return list(value[:MANY])
    if type(value) is dict:
        return list(value.values())[:MANY]
    return [value] if hasattr(value, "__dict__") else []


def _dataset(found: list[Any]) -> Any:
    """What the samples come from: the object whose method maps indices to them, or the iterable at the beginning."""
    for one in found:
        own = attributes_of(one)
        owner = getattr(own.get("map_fn"), "__self__", None)
        if owner is not None:
            return owner
        if "iterable" in own:
            return own["iterable"]
    return None


def _code(of: Any) -> dict[str, Any] | None:
    """Where samples are made."""
    made = getattr(type(of), "__getitem__", None) or getattr(type(of), "__iter__", None)
    code = getattr(of, "__code__", None) or getattr(made, "__code__", None)
    if code is None:
        return None
    return {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name}
