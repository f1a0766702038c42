"""A stream seen through a window of fixed size: what is needed next is always in one piece, nothing is copied twice."""

from __future__ import annotations

from ..reading import Stream

SIZE = 2 << 20  # bytes: measured from 256 KiB to 8 MiB, with little between them


class Window:
    """`buffer[at:end]` is what has been read and not been passed. `offset` is where `at` stands in the stream."""

    def __init__(self, stream: Stream, size: int = SIZE) -> None:
        self.buffer = bytearray(size)
        self.view = memoryview(self.buffer)
        self.size = size
        self.at = self.end = self.offset = 0
        self._stream = stream

    def need(self, count: int) -> int:
        """So many bytes are there then, or all that is left of the stream: how many are there."""
        have = self.end - self.at
        if have >= count:
            return have
        if self.at:
            self.view[:have] = self.view[self.at : self.end]
            self.at, self.end = 0, have
        while self.end < count:
            got = self._stream.readinto(self.view[self.end :])
            if not got:
                break
            self.end += got
        return self.end - self.at

    def skip(self, count: int) -> None:
        """Passes what is there."""
        self.at += count
        self.offset += count

    def pass_over(self, count: int) -> int:
        """Passes more than a window holds, and gives how much of it was there."""
        left = count
        while left:
            have = min(self.need(1), left)
            if not have:
                break
            self.skip(have)
            left -= have
        return count - left
