"""What a worker is about to hand over: how many tensors, how large, views of how much, and what stands for it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple
from zlib import crc32

from .guard import is_ours
from .holdings import attributes_of

MANY = 4096  # leaves of one batch that are looked at
DEEP = 6
FEW = 16  # leaves that go into the digest, and
HEAD = 256  # elements of each


class Contents(NamedTuple):
    """Of one batch."""

    tensors: int = 0
    size: int = 0
    storage: int = 0
    digest: int = 0


def look(data: Any, *, digest: bool) -> Contents:
    """Go through a batch. Only plain containers and what lies open in objects is gone through."""
    torch = sys.modules.get("torch")
    if torch is None:
        return Contents()
    tensors = size = known = 0
    storages: dict[int, int] = {}
    for number, leaf in enumerate(_leaves(data)):
        if type(leaf) is torch.Tensor and leaf.layout is torch.strided:
            tensors += 1
            size += leaf.nbytes
            storage = leaf.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        if digest and number < FEW:
            known = crc32(_bytes_of(leaf, torch), known)
    return Contents(tensors, size, sum(storages.values()), known)


def _leaves(data: Any) -> list[Any]:
    found: list[Any] = []
    waiting = [(data, 0)]
    while waiting and len(found) < MANY:
        value, depth = waiting.pop()
        inner = _inside(value) if depth < DEEP else None
        if inner is None:
            found.append(value)
        else:
            waiting += [(one, depth + 1) for one in reversed(inner[:MANY])]
    return found


def _inside(value: Any) -> list[Any] | None:
    """What a container holds. None: it is none."""
    kind = type(value)
    if issubclass(kind, dict):
        return list(dict.values(value))
    if issubclass(kind, list):
        return list(list.__iter__(value))
    if issubclass(kind, tuple):
        return list(tuple.__iter__(value))
    own = attributes_of(value)
    return list(own.values()) if own and kind.__module__ not in ("torch", "numpy") else None


def _bytes_of(leaf: Any, torch: Any) -> bytes:
    try:
        if type(leaf) is torch.Tensor:
            if leaf.device.type != "cpu" or leaf.layout is not torch.strided:
                return str(leaf.shape).encode()
            head = leaf.detach().reshape(-1)[:HEAD].contiguous()
            raw = head.view(torch.uint8).numpy().tobytes() if head.numel() else b""
            return str(tuple(leaf.shape)).encode() + raw
        if type(leaf).__module__ == "numpy" and hasattr(leaf, "ravel"):
            return bytes(leaf.ravel()[:HEAD].tobytes())
    except Exception as error:
        if not is_ours(error):
            raise
        return b"?"
    if type(leaf) in (int, float, bool, str, bytes, type(None)):
        return repr(leaf)[:HEAD].encode("utf-8", "replace")
    return type(leaf).__name__.encode("utf-8", "replace")
