"""How large a sample or a batch is, and what of it another process is handed; what a dataset object holds in memory."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

PAGE = 4096  # a tensor that is handed over is a file in /dev/shm: whole pages
SHAPES = 6  # that are written down; the rest is counted
DEEPEST = 12
MANY = 200_000  # parts of one sample that are looked at: the rest is like them
MOST_ITEMS = 20_000  # items of one container that are looked into; a larger one is measured by a part of it
PART = 2_000
DEEPEST_OBJECT = 8
SECONDS = 3.0
ROUNDS_TO = 16  # bytes: as Python's allocator gives them
CONTAINERS = (dict, list, tuple, set, frozenset, deque)
BLIND = (ModuleType, type, FunctionType, BuiltinFunctionType, MethodType)


class Sizes:
    """What was found in one value, nothing counted twice. Bytes."""

    def __init__(self) -> None:
        self.size = 0  # what tensors, arrays and bytes show
        self.storage = 0  # the memory that these are views of
        self.shm = 0  # of it, what goes to another process through /dev/shm: tensors, in whole pages
        self.objects = 0  # Python objects around it: dicts, lists, numbers, strings
        self.tensors = 0
        self.parts = 0
        self.shapes: list[str] = []
        self._known: set[int] = set()

    @property
    def held(self) -> int:
        """All the memory that goes away with it."""
        return self.storage + self.objects

    @property
    def pickled(self) -> int:
        """What goes to another process through a pipe: all that is no tensor."""
        return max(self.held - self._in_tensors, 0)

    _in_tensors = 0

    def add(self, value: Any, depth: int = 0) -> None:
        self.parts += 1
        if id(value) in self._known or depth > DEEPEST or self.parts > MANY:
            return
        self._known.add(id(value))
        if _is_tensor(value):
            self._tensor(value)
        elif _is_array(value):
            self._array(value, depth)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self._block(len(value), f"bytes[{len(value):,}]")
        elif type(value).__module__.startswith("PIL."):
            self._image(value)
        elif type(value).__module__.startswith("pyarrow"):
            self._block(getattr(value, "nbytes", 0) or 0, type(value).__name__)
        else:
            self._plain(value, depth)

    def _plain(self, value: Any, depth: int) -> None:
        self.objects += _rounded(sys.getsizeof(value, 0))
        if isinstance(value, str):
            self.size += len(value)
        elif isinstance(value, Mapping):
            for key, one in value.items():
                self.objects += _rounded(sys.getsizeof(key, 0))
                self.add(one, depth + 1)
        elif isinstance(value, (list, tuple, set, frozenset)):
            for one in value:
                self.add(one, depth + 1)
        elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
            self.add(vars(value), depth + 1)

    def _tensor(self, tensor: Any) -> None:
        shown = tensor.numel() * tensor.element_size()
        self.size += shown
        self.tensors += 1
        self._shape(f"{str(tensor.dtype).rpartition('.')[2]}{list(tensor.shape)}")
        try:
            storage = tensor.untyped_storage()
            behind, where = storage.nbytes(), storage.data_ptr()
        except (RuntimeError, NotImplementedError, AttributeError):  # sparse, meta, older than untyped storages
            behind, where = shown, id(tensor)
        if where not in self._known:
            self._known.add(where)
            self.storage += behind
            self._in_tensors += behind
            self.shm += -(-behind // PAGE) * PAGE

    def _array(self, array: Any, depth: int) -> None:
        """A pickled view takes along what it shows, not what it is a view of; while it lives it keeps all of it."""
        self.size += array.nbytes
        self._shape(f"{array.dtype}{list(array.shape)}")
        base = array
        while _is_array(getattr(base, "base", None)):
            base = base.base
        if type(base).__name__ == "memmap" or _is_mapped(base):
            return
        if id(base) not in self._known or base is array:
            self._known.add(id(base))
            self.storage += base.nbytes
        if array.dtype == object:
            for one in array.ravel()[:MANY]:
                self.add(one, depth + 1)

    def _image(self, image: Any) -> None:
        width, height = image.size
        taken = width * height * (1 if len(image.getbands()) == 1 else 4)  # Pillow has four bytes for three colours
        self._block(taken, f"{image.mode}[{height}, {width}]")

    def _block(self, taken: int, shape: str) -> None:
        self.size += taken
        self.storage += taken
        self._shape(shape)

    def _shape(self, shape: str) -> None:
        self.shapes.append(shape)

    def words(self) -> str:
        """`float32[3, 224, 224], int64[]`, the same ones counted: `100 × int64[]`."""
        counted: dict[str, int] = {}
        for one in self.shapes:
            counted[one] = counted.get(one, 0) + 1
        told = [f"{count} × {one}" if count > 1 else one for one, count in counted.items()]
        more = [f"{len(told) - SHAPES} more kinds"] if len(told) > SHAPES else []
        return ", ".join([*told[:SHAPES], *more])

    def facts(self) -> dict[str, Any]:
        return {
            "size": self.size, "storage": self.storage, "shm": self.shm, "pickled": self.pickled, "held": self.held,
            "tensors": self.tensors, "shapes": self.words(),
        }  # fmt: skip


def sizes_of(value: Any) -> Sizes:
    found = Sizes()
    found.add(value)
    return found


def shipped(batch: Any) -> int:
    """Bytes of the memory that its tensors are views of: that is what is handed over."""
    seen: dict[int, int] = {}
    _collect(batch, seen)
    return sum(seen.values())


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
        if (
            id(value) in self._known
            or depth > DEEPEST_OBJECT
            or isinstance(value, BLIND)
            or time.monotonic() > self._until
        ):
            return
        self._known.add(id(value))
        if self._is_block(value, weight, depth):
            return
        self.count += weight
        self.objects += weight * (_rounded(sys.getsizeof(value, 0)))
        if isinstance(value, CONTAINERS):
            self._items(value, len(value), weight, depth)
        else:
            self._attributes(value, weight, depth)

    def _items(self, container: Any, length: int, weight: float, depth: int) -> None:
        step = 1 if length <= MOST_ITEMS else length // PART
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
        elif isinstance(value, (bytes, bytearray)) and len(value) >= MOST_ITEMS:
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


def holdings_of(dataset: Any) -> Holdings:
    found = Holdings()
    found.add(dataset)
    return found


def _rounded(taken: int) -> int:
    return -(-taken // ROUNDS_TO) * ROUNDS_TO


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_mapped(array: Any) -> bool:
    return type(getattr(array, "base", None)).__name__ == "mmap"


def _each(container: Any) -> Iterator[Any]:
    return iter(list(container.items()) if isinstance(container, dict) else list(container))


def _arrow(value: Any) -> int:
    """Only what lies in memory: a table over a mapped file takes none."""
    taken = getattr(value, "nbytes", 0)
    allocated = getattr(sys.modules.get("pyarrow"), "total_allocated_bytes", int)()
    return min(taken if isinstance(taken, int) else 0, int(allocated))


def _collect(thing: Any, seen: dict[int, int]) -> None:
    if hasattr(thing, "untyped_storage"):
        storage = thing.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
    elif isinstance(thing, dict):
        for one in thing.values():
            _collect(one, seen)
    elif isinstance(thing, (list, tuple)):
        for one in thing:
            _collect(one, seen)
    elif hasattr(thing, "__dict__"):
        for one in vars(thing).values():
            _collect(one, seen)
