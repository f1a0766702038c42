"""Compressed files (gzip, bz2, lzma) that cannot be read to their end. Only errors and ends that are reached are seen.

tarfile reads through them too, to find out which format an archive has: its errors are another adapter's business.
"""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace
from ..core.objects import attributes_of
from ..format import Kind
from ..loading.readers import failed_reads, read_fails, read_succeeds

MODULES = ("gzip", "_compression")
OWES = (Kind.SHARD_ERROR,)
DEEP = 12  # calls up the stack
READERS = {"gzip": "_GzipReader", "_compression": "DecompressReader"}


def install(module: ModuleType, guard: Guard) -> Undo:
    owner = vars(module)[READERS[module.__name__]]
    name = "gzip" if module.__name__ == "gzip" else "a decompressor"
    return replace(owner, "read", lambda original: _read(original, name, guard))


def _read(original: Any, name: str, guard: Guard) -> Any:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            data = original(self, *args, **kwargs)
        except Exception as error:
            guard.quietly(_fails, self, name, error, sys._getframe(1))
            clean(error)
            raise
        if failed_reads and not data:
            guard.quietly(read_succeeds, name, _file(self))
        return data

    return read


def _fails(reader: Any, name: str, error: Exception, frame: FrameType) -> None:
    caller: FrameType | None = frame
    for _ in range(DEEP):
        if caller is None:
            break
        if caller.f_code.co_filename.endswith("tarfile.py"):
            return
        caller = caller.f_back
    read_fails(name, _file(reader), error, frame)


def _file(reader: Any) -> object:
    """The path of the file below; the file itself, where it has none."""
    below = attributes_of(reader).get("_fp")
    below = attributes_of(below).get("file", below)  # gzip looks at its beginning first, through a file of its own
    name = getattr(below, "name", None) if type(below).__module__ in ("_io", "io") else None
    return name if isinstance(name, str) else below
