"""How large a sample or a batch is: what it shows, the memory behind it, and what of that another process is handed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

PAGE = 4096  # a tensor that is handed over is a file in /dev/shm: whole pages
SHAPES = 6  # that are written down; the rest is counted
DEEPEST = 12
MANY = 200_000  # parts of one sample that are looked at: the rest is like them


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


def _rounded(taken: int) -> int:
    return -(-taken // 16) * 16  # as Python's allocator gives it


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_mapped(array: Any) -> bool:
    return type(getattr(array, "base", None)).__name__ == "mmap"
