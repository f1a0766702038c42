"""A member of an archive, read as if it stood alone."""

from __future__ import annotations

import io
from collections.abc import Callable

from .compression import compression_of
from .noting import Notes, Wish
from .reading import Stream

# None of them begins any text in UTF-8. A member that ends with .json.gz is unpacked by those who read it.
PACKED = ("gzip", "xz", "zstd")


def is_packed(data: bytes | memoryview) -> bool:
    return compression_of(bytes(data[:64])) in PACKED


def first_fault(read: Callable[[Stream, Notes], None], data: bytes | memoryview) -> str:
    """What is wrong with it, or nothing."""
    notes = Notes("", len(data), Wish(decode=True))
    if not len(data):
        return "it has no bytes at all"
    read(Stream(io.BytesIO(data), notes), notes)
    faults = notes.file().faults
    return faults[0].what if faults else ""
