"""Bytes of a stream that are wanted, and bytes that are only counted."""

from __future__ import annotations

from ..reading import Stream

PIECE = 1 << 18
ALL = 1 << 62


def take(stream: Stream, count: int) -> bytes:
    """So many, but for the end of the file."""
    data = bytearray(count)
    return bytes(data[: stream.readinto(memoryview(data))])


def pass_over(stream: Stream, count: int = ALL) -> int:
    """How many of so many there are."""
    have, buffer = 0, memoryview(bytearray(PIECE))
    while have < count and (got := stream.readinto(buffer[: count - have])):
        have += got
    return have
