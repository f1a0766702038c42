"""A file's bytes from first to last, decompressed where they are compressed: in pieces, never as a whole."""

from __future__ import annotations

from time import perf_counter
from typing import IO

from .compression import Inflated, compression_of
from .noting import Notes
from .source import opened

HEAD = 4096  # bytes by which a format is known


class Stream:
    """Sequential reading, for formats that need nothing else. `raw` is the file itself, for those that seek."""

    def __init__(self, raw: IO[bytes], notes: Notes) -> None:
        self.raw, self.notes = raw, notes
        first = _filled(self._read_raw, HEAD)
        self.compression = compression_of(first)
        self._inflated = Inflated(self.compression, first, self._read_raw, notes) if self.compression else None
        self.head = _filled(self._inflated.read, HEAD) if self._inflated is not None else first
        self._left = memoryview(self.head)

    def readinto(self, into: memoryview) -> int:
        """Fills it, but for the end of the file."""
        have = 0
        if self._left:
            have = min(len(self._left), len(into))
            into[:have] = self._left[:have]
            self._left = self._left[have:]
        while have < len(into):
            got = self._inflated.readinto(into[have:]) if self._inflated is not None else self._raw_into(into[have:])
            if not got:
                break
            have += got
        return have

    def again(self, offset: int, count: int) -> bytes:
        """Bytes of the file itself that were read before; its place does not change."""
        place = self.raw.tell()
        try:
            self.raw.seek(offset)
            return _filled(self.raw.read, count)
        finally:
            self.raw.seek(place)

    def _raw_into(self, into: memoryview) -> int:
        began = perf_counter()
        got: int = self.raw.readinto(into) or 0  # type: ignore[attr-defined]
        self._seen(into[:got], began)
        return got

    def _read_raw(self, count: int) -> bytes:
        began = perf_counter()
        data = self.raw.read(count) or b""
        self._seen(data, began)
        return data

    def _seen(self, data: bytes | memoryview, began: float) -> None:
        self.notes.reading += perf_counter() - began
        self.notes.moved(len(data))
        self.notes.hash(data)


def head_of(path: str) -> bytes:
    """The first bytes of a file, as they are. None of one that cannot be read."""
    try:
        with opened(path) as raw:
            return raw.read(HEAD) or b""
    except OSError:
        return b""


def _filled(read: object, count: int) -> bytes:
    """So many bytes, but for the end of the file."""
    found = b""
    while len(found) < count:
        more: bytes = read(count - len(found))  # type: ignore[operator]
        if not more:
            break
        found += more
    return found
