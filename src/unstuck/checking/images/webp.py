"""The structure of WebP: a RIFF file, which says how long it is, of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

HEADER = 12
FRAME = 16  # bytes in front of the chunks of one picture of an animation
COMPRESSED = (b"VP8 ", b"VP8L")


class Chunk(NamedTuple):
    """Where its data is."""

    kind: bytes
    at: int
    end: int


def is_webp(head: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def missing(data: bytes) -> int:
    """Bytes that it announces and that are not there: libwebp refuses it if it is one."""
    return max(0, 8 + int.from_bytes(data[4:8], "little") - len(data))


def chunks(data: bytes, at: int = HEADER, end: int | None = None) -> Iterator[Chunk]:
    """Also those of the pictures of an animation."""
    end = len(data) if end is None else end
    while at + 8 <= end:
        kind, start = data[at : at + 4], at + 8
        until = min(start + int.from_bytes(data[at + 4 : at + 8], "little"), end)
        yield Chunk(kind, start, until)
        if kind == b"ANMF":
            yield from chunks(data, start + FRAME, until)
        at = until + (until - start) % 2
