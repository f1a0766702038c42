"""A stream seen through a window of bounded size: what is needed next is always in one piece."""

from __future__ import annotations

from ...files import Stream

SIZE = 4 << 20  # bytes
PIECE = 1 << 20  # of those that are only passed: what a processor's cache holds
_spare: list[bytearray] = []


class Window:
    """`buffer[at:end]` is what has been read and not been passed. `offset` is where `at` stands in the stream."""

    def __init__(self, stream: Stream, size: int = SIZE) -> None:
        self.buffer = _spare.pop() if _spare and len(_spare[0]) == size else bytearray(size)
        self.view = memoryview(self.buffer)
        self.size = size
        self.at = self.end = self.offset = 0
        self.ahead = size  # how far it is read at once: less where members are large
        self._stream = stream

    def close(self) -> None:
        """The next one takes the same memory: to get new one costs as much as reading into it."""
        _spare[:] = [self.buffer]

    def need(self, count: int) -> int:
        """So many bytes are there then, or all that is left of the stream: how many are there."""
        have = self.end - self.at
        if have >= count:
            return have
        if self.at:
            self.view[:have] = self.view[self.at : self.end]
            self.at, self.end = 0, have
        while self.end < count:
            got = self._stream.readinto(self.view[self.end : max(count, self.ahead)])
            if not got:
                break
            self.end += got
        return self.end - self.at

    def some(self) -> int:
        """What is there, or the next piece of the stream: how many bytes."""
        if self.at == self.end:
            self.at, self.end = 0, self._stream.readinto(self.view[:PIECE])
        return self.end - self.at

    @property
    def passes_once(self) -> bool:
        return self._stream.compression != ""

    def again(self, offset: int, count: int) -> bytes:
        """What was there before, of a stream that does not pass only once. Less, where it cannot be read any more."""
        return self._stream.again(offset, count)

    def skip(self, count: int) -> None:
        """Passes what is there."""
        self.at += count
        self.offset += count

    def pass_over(self, count: int) -> int:
        """Passes more than a window holds, and gives how much of it was there."""
        left = count
        while left:
            have = min(self.some(), left)
            if not have:
                break
            self.skip(have)
            left -= have
        return count - left
