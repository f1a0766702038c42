"""What makes compressed bytes into what they hold: pieces of bounded size, and `Broken` where there are no more."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Protocol

from .broken import Broken

PIECE = 1 << 18
FED = 1 << 14  # bytes that others than zlib get at a time: what such a bite held is lost where they find damage in it
MEMORY = 1 << 29  # xz wants 65 MiB for what `xz -9` wrote; more is chosen by hand, up to 4 GiB
LIBRARY = "pyarrow"  # reads zstd and lz4


class _Half(Exception):  # noqa: N818
    """Damage, with what came before it, and the bytes that had come with it and were not used."""

    def __init__(self, words: str, saved: bytes, unused: int) -> None:
        super().__init__(words)
        self.saved, self.unused = saved, unused


class Missing(Exception):  # noqa: N818
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


class Machine(Protocol):
    """As bz2 and lzma have it, for one member of a file."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def pieces(kind: str, source: Source) -> Iterator[bytes]:
    """Raises Missing."""
    if kind == "gzip":
        return _members(_Gzip, kind, source)
    if kind == "bzip2":
        return _members(bz2.BZ2Decompressor, kind, source)
    if kind == "xz":
        return _members(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY), kind, source)
    if not find_spec(LIBRARY):
        raise Missing(f"compressed with {kind}, needs {LIBRARY}: pip install 'unstuck[data]'")
    return _of_arrow(kind, source)


def _members(make: Callable[[], Machine], kind: str, source: Source) -> Iterator[bytes]:
    """A file may be several, one behind the other: pigz, bgzip and `cat` make such."""
    data, magic = source.take(), b""
    while data:
        magic = magic or data[:3]
        if not data.startswith(magic):
            at = source.taken - len(data)
            raise Broken(
                "damaged", f"behind the end of the {kind} data, at byte {at:,} of the file, stands something else"
            )
        machine = make()
        yield from _member(machine, data, kind, source)
        data = _behind(machine.unused_data, source)


def _member(machine: Machine, data: bytes, kind: str, source: Source) -> Iterator[bytes]:
    while not machine.eof:
        if machine.needs_input and not data:
            data = source.take(FED)
            if not data:
                raise Broken("cut", f"the {kind} data breaks off: its {source.taken:,} bytes have no end")
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
    return Broken("damaged", f"the {kind} data is damaged {where} of the file: {words}")


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
                raise Broken("cut", f"the {kind} data breaks off: its {source.taken:,} bytes have no end") from error
            raise _damage(kind, str(error), f"before byte {source.taken:,}") from error
        if not piece:
            return
        yield piece
