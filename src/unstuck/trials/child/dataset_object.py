"""What a dataset object holds in memory: Python objects, which reading copies in forked workers, and large blocks."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

MOST = 20_000  # items of one container that are looked into; a larger one is measured by a part of it
PART = 2_000
DEEPEST = 8
SECONDS = 3.0
ROUNDS_TO = 16  # bytes: as Python's allocator gives them
CONTAINERS = (dict, list, tuple, set, frozenset, deque)
BLIND = (ModuleType, type, FunctionType, BuiltinFunctionType, MethodType)


class Holdings:
    """Bytes of one dataset. `objects`: small Python objects, whose reference counts are written to by whoever reads."""

    def __init__(self) -> None:
        self.objects = 0.0
        self.count = 0.0  # of these objects
        self.arrays = 0.0  # numpy's and Arrow's, in memory: copied to workers that are spawned
        self.tensors = 0.0  # shared with workers, however these are started
        self.largest = ""  # the attribute that holds most of the objects
        self._known: set[int] = set()
        self._until = time.monotonic() + SECONDS

    def facts(self) -> dict[str, Any]:
        numbers = {name: int(getattr(self, name)) for name in ("objects", "count", "arrays", "tensors")}
        return {**numbers, "largest": self.largest}

    def add(self, value: Any, weight: float = 1.0, depth: int = 0) -> None:
        """`weight`: how many others it stands for."""
        if id(value) in self._known or depth > DEEPEST or isinstance(value, BLIND) or time.monotonic() > self._until:
            return
        self._known.add(id(value))
        if self._is_block(value, weight, depth):
            return
        self.count += weight
        self.objects += weight * (-(-sys.getsizeof(value, 0) // ROUNDS_TO) * ROUNDS_TO)
        if isinstance(value, CONTAINERS):
            self._items(value, len(value), weight, depth)
        else:
            self._attributes(value, weight, depth)

    def _items(self, container: Any, length: int, weight: float, depth: int) -> None:
        step = 1 if length <= MOST else length // PART
        taken = [one for number, one in enumerate(_each(container)) if number % step == 0]
        for one in taken:
            for part in one if isinstance(container, dict) else (one,):
                self.add(part, weight * length / max(len(taken), 1), depth + 1)

    def _attributes(self, value: Any, weight: float, depth: int) -> None:
        own = getattr(value, "__dict__", None)
        if not isinstance(own, dict):
            return
        for name, one in list(own.items()):
            before = self.objects
            self.add(one, weight, depth + 1)
            if not depth and self.objects - before > self._most:
                self._most, self.largest = self.objects - before, name

    _most = 0.0

    def _is_block(self, value: Any, weight: float, depth: int) -> bool:
        kind = type(value)
        if kind.__module__.startswith("pyarrow"):
            self.arrays += weight * _arrow(value)
        elif kind.__module__.startswith("pandas."):
            self._frame(value, weight)
        elif hasattr(value, "untyped_storage"):
            self.tensors += weight * value.untyped_storage().nbytes()
        elif kind.__name__ in ("memmap", "mmap"):
            pass
        elif hasattr(value, "nbytes") and hasattr(value, "dtype"):
            self._array(value, weight, depth)
        elif isinstance(value, (bytes, bytearray)) and len(value) >= MOST:
            self.arrays += weight * len(value)
        else:
            return False
        return True

    def _array(self, array: Any, weight: float, depth: int) -> None:
        base = getattr(array, "base", None)
        if type(base).__name__ in ("memmap", "mmap"):
            return
        self.arrays += weight * array.nbytes
        if array.dtype == object:
            self._items(array.ravel(), array.size, weight, depth)

    def _frame(self, frame: Any, weight: float) -> None:
        """Columns of Python strings are Python objects; the others are blocks."""
        usage = getattr(frame, "memory_usage", None)
        if usage is None:
            return
        shallow, deep = usage(deep=False), usage(deep=True)
        shallow, deep = (int(one.sum()) if hasattr(one, "sum") else int(one) for one in (shallow, deep))
        self.arrays += weight * shallow
        self.objects += weight * max(deep - shallow, 0)


def _each(container: Any) -> Iterator[Any]:
    return iter(list(container.items()) if isinstance(container, dict) else list(container))


def _arrow(value: Any) -> int:
    """Only what lies in memory: a table over a mapped file takes none."""
    taken = getattr(value, "nbytes", 0)
    allocated = getattr(sys.modules.get("pyarrow"), "total_allocated_bytes", int)()
    return min(taken if isinstance(taken, int) else 0, int(allocated))


def holdings_of(dataset: Any) -> Holdings:
    found = Holdings()
    found.add(dataset)
    return found
