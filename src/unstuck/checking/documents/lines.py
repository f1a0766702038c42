"""Whole lines of a stream, many at a time; of a line that is too long to be held, one part after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..reading import Stream

BLOCK = 1 << 18
LONGEST = 64 << 20  # bytes of a line that are held: the longest documents of web corpora have some 10 MiB


class Block(NamedTuple):
    """Whole lines; of the last one of a file the end may be missing."""

    at: int
    data: bytes
    goes_on: bool = False  # it is a part of a line that is longer than LONGEST, and a further part follows


def blocks(stream: Stream) -> Iterator[Block]:
    held = _Held()
    while held.fill(stream):
        while (block := held.next()) is not None:
            yield block
    if held.have or held.long:
        yield held.give(held.have)


class _Held:
    """What was read and not given yet: the beginning of a line."""

    def __init__(self) -> None:
        self._buffer = bytearray(BLOCK)
        self._at = self._searched = self.have = 0
        self.long = False  # a part of this line was given

    def fill(self, stream: Stream) -> bool:
        if self.have == len(self._buffer):
            self._buffer += bytes(self.have)
        got = stream.readinto(memoryview(self._buffer)[self.have :])
        self.have += got
        return got > 0

    def next(self) -> Block | None:
        search = self._buffer.find if self.long else self._buffer.rfind
        end = search(b"\n", self._searched, self.have) + 1
        if not end and (self.long or self.have >= LONGEST):
            self.long = True
            return self.give(self.have)._replace(goes_on=True) if self.have else None
        if not end:
            self._searched = self.have
            return None
        self.long = False
        return self.give(end)

    def give(self, end: int) -> Block:
        block = Block(self._at, bytes(memoryview(self._buffer)[:end]))
        rest = self._buffer[end : self.have]
        if len(self._buffer) > BLOCK > len(rest):
            self._buffer = bytearray(BLOCK)
        self._buffer[: len(rest)] = rest
        self._at, self.have, self._searched = self._at + end, len(rest), 0
        return block
