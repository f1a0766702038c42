"""Compressed files: which kind, by their first bytes, and what they hold, in pieces of bounded size.

Damage ends what can be had of one, and is noted: `Inflated` is for readers, `pieces` does the work.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Protocol

from ..wording.text import size
from .notes import Broken, Notes

MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}
ENDINGS = (".gz", ".zst", ".zstd", ".bz2", ".xz", ".lz4")
SKIPPABLE = (
    b"\x2a\x4d\x18"  # behind a byte of 0x50 to 0x5f: a frame of zstd and lz4 that holds nothing; pzstd begins so
)
ROOM = 1 << 30  # nothing of up to this size is a bomb,
RATIO = 250  # nor what grows less: text becomes 20 times smaller, logs 100 times; bombs begin at 1,000
PIECE = 1 << 18
FED = 1 << 14  # bytes that others than zlib get at a time: what such a bite held is lost where they find damage in it
MEMORY = 1 << 29  # xz wants 65 MiB for what `xz -9` wrote; more is chosen by hand, up to 4 GiB
LIBRARY = "pyarrow"  # reads zstd and lz4


def compression_of(head: bytes) -> str:
    if head[1:4] == SKIPPABLE and head[0] >> 4 == 5:
        head = head[8 + int.from_bytes(head[4:8], "little") :]
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


class Inflated:
    """What a compressed file holds, as far as it can be had. Damage ends it, and is noted.

    Raises MissingLibrary where no library for this kind is there.
    """

    def __init__(self, kind: str, first: bytes, more: Callable[[int], bytes], notes: Notes) -> None:
        self._kind, self._notes = kind, notes
        self._source = Source(first, more)
        self._pieces = pieces(kind, self._source)
        self._left = memoryview(b"")
        self._given = 0
        self._over = False

    def read(self, count: int) -> bytes:
        """Up to so many bytes; none at the end."""
        self._refill()
        data = bytes(self._left[:count])
        self._left = self._left[count:]
        return data

    def readinto(self, into: memoryview) -> int:
        self._refill()
        have = min(len(self._left), len(into))
        into[:have] = self._left[:have]
        self._left = self._left[have:]
        return have

    def _refill(self) -> None:
        if self._left or self._over:
            return
        try:
            self._left = memoryview(next(self._pieces, b""))
        except Broken as broken:
            self._end(broken.kind, broken.what)
        self._given += len(self._left)
        if not self._over and self._given > ROOM and self._given > RATIO * self._source.taken:
            self._left = memoryview(b"")
            what = f"{self._source.taken:,} bytes of {self._kind} expand to more than {size(self._given)}: a bomb"
            self._end("hostile", f"{what}, not read any further")

    def _end(self, kind: str, what: str) -> None:
        # Only gzip gives all that stands before damage, and nothing of what comes of it.
        known = kind != "damaged" or self._kind == "gzip"
        self._notes.fault(kind, what, at=self._given if known else None)
        self._over = self._notes.broken = True
        if self._notes.wish.algorithm:  # a digest is of all bytes of the file
            while self._source.take():
                pass


class MissingLibrary(Exception):  # noqa: N818
    """A library is missing without which this compression cannot be read."""


class Source:
    """The compressed bytes, in their order, and how many were taken."""

    def __init__(self, first: bytes, more: Callable[[int], bytes]) -> None:
        self._first, self._more = first, more
        self.taken = 0

    def take(self, count: int = PIECE) -> bytes:
        data, self._first = (self._first[:count], self._first[count:]) if self._first else (self._more(count), b"")
        self.taken += len(data)
        return data


def pieces(kind: str, source: Source) -> Iterator[bytes]:
    """Raises MissingLibrary."""
    if kind == "gzip":
        return _members(_Gzip, kind, source)
    if kind == "bzip2":
        return _members(bz2.BZ2Decompressor, kind, source)
    if kind == "xz":
        return _members(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY), kind, source)
    if not find_spec(LIBRARY):
        raise MissingLibrary(f"compressed with {kind}, needs {LIBRARY}: pip install 'unstuck[data]'")
    return _of_arrow(kind, source)


class _Decompressor(Protocol):
    """As bz2 and lzma have it, for one member of a file."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def _members(make: Callable[[], _Decompressor], kind: str, source: Source) -> Iterator[bytes]:
    """A file may be several, one behind the other: pigz, bgzip and `cat` make such."""
    data, magic = source.take(), b""
    while data:
        magic = magic or data[:3]
        if not data.startswith(magic):
            at = source.taken - len(data)
            raise Broken(
                "damaged", f"after the end of the {kind} data, at byte {at:,} of the file, comes something else"
            )
        machine = make()
        yield from _member(machine, data, kind, source)
        data = _behind(machine.unused_data, source)


def _member(machine: _Decompressor, data: bytes, kind: str, source: Source) -> Iterator[bytes]:
    while not machine.eof:
        if machine.needs_input and not data:
            data = source.take(FED)
            if not data:
                raise Broken("cut", f"the {kind} data is truncated: its {source.taken:,} bytes have no end")
        try:
            piece = machine.decompress(data, PIECE)
        except _Half as half:
            if half.saved:
                yield half.saved
            raise _damage(kind, str(half), f"at byte {source.taken - half.unused:,}") from half
        except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
            raise _damage(kind, str(error), f"before byte {source.taken:,}") from error
        data = b""
        if piece:
            yield piece


def _behind(data: bytes, source: Source) -> bytes:
    """The next member. Zeros between and behind them are padding to whole blocks, which all readers skip."""
    while True:
        data = data.lstrip(b"\0")
        if len(data) >= 3:
            return data
        more = source.take()
        if not more:
            return data
        data += more


def _damage(kind: str, words: str, where: str) -> Broken:
    if "emory" in words:
        return Broken("hostile", f"the {kind} data asks for more memory than its reader allows: {words}")
    return Broken("damaged", f"the {kind} data is corrupt {where} of the file: {words}")


class _Gzip:
    """zlib with the manners of bz2 and lzma; and what comes before damage is not lost with it."""

    def __init__(self) -> None:
        self._machine = zlib.decompressobj(wbits=31)
        self._full = False

    @property
    def eof(self) -> bool:
        return self._machine.eof

    @property
    def needs_input(self) -> bool:
        return not self._machine.unconsumed_tail and not self._full

    @property
    def unused_data(self) -> bytes:
        return self._machine.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data = self._machine.unconsumed_tail + data
        before = self._machine.copy()  # 40 KiB: a hundredth of the work
        try:
            found = self._machine.decompress(data, max_length)
        except zlib.error as error:
            raise _half(before, data, str(error).partition(": ")[2] or str(error)) from error
        self._full = len(found) == max_length
        return found


class _Half(Exception):  # noqa: N818
    """Damage, with what came before it, and the bytes that had come with it and were not used."""

    def __init__(self, words: str, saved: bytes, unused: int) -> None:
        super().__init__(words)
        self.saved, self.unused = saved, unused


def _half(machine: zlib._Decompress, data: bytes, words: str) -> _Half:
    """What can be had of data that ends in an error: halves of it, as long as they bring none."""
    found, at, step = [], 0, 1 << len(data).bit_length()
    while step := step // 2:
        tried = machine.copy()
        try:
            piece = tried.decompress(data[at : at + step])
        except zlib.error:
            continue
        found.append(piece)
        machine, at = tried, at + step
    return _Half(words, b"".join(found), len(data) - at)


def _of_arrow(kind: str, source: Source) -> Iterator[bytes]:
    import pyarrow as pa

    feed = _Feed(source)
    stream = pa.CompressedInputStream(pa.PythonFile(feed, mode="r"), kind)
    while True:
        try:
            piece: bytes = stream.read(FED)
        except OSError as error:
            if feed.error is not None:
                raise feed.error from error
            if "runcated" in str(error):
                raise Broken("cut", f"the {kind} data is truncated: its {source.taken:,} bytes have no end") from error
            raise _damage(kind, str(error), f"before byte {source.taken:,}") from error
        if not piece:
            return
        yield piece


class _Feed:
    """A file for pyarrow. An error of the storage is kept, for pyarrow would make it one of its own."""

    closed = False

    def __init__(self, source: Source) -> None:
        self._source = source
        self.error: OSError | None = None

    def read(self, count: int) -> bytes:
        try:
            return self._source.take(min(count, FED))
        except OSError as error:
            self.error = error
            return b""

    def close(self) -> None:
        """Nothing to do: whoever opened the file closes it."""
