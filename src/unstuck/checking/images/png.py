"""The structure of PNG: chunks with a checksum each, up to the last, IEND."""

from __future__ import annotations

import zlib
from typing import NamedTuple

MAGIC = b"\x89PNG\r\n\x1a\n"
END = b"\0\0\0\0IEND\xaeB`\x82"
KNOWN = 6  # bytes of it: IDAT begins otherwise


class Bad(NamedTuple):
    """The first chunk that is not whole."""

    at: int
    what: str
    between: bool = False  # all chunks that begin are there


def bad_chunk(data: bytes) -> Bad | None:
    """What stands behind IEND is nobody's business, and no decoder asks for the end of IEND itself."""
    at, view = len(MAGIC), memoryview(data)
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 12 + length
        if not kind.isalpha() or length >> 31:
            return Bad(at, f"no chunk begins at its byte {at:,}, where one should")
        name = kind.decode()
        if end > len(data):
            return Bad(at, f"it breaks off in its chunk {name}: {len(data) - at:,} of {length + 12:,} bytes are there")
        if zlib.crc32(view[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            return Bad(at, f"its chunk {name} at byte {at:,} does not agree with its checksum")
        if kind == b"IEND":
            return None
        at = end
    if len(data) - at >= KNOWN and END.startswith(data[at:]):
        return None
    return Bad(at, f"it breaks off after {len(data):,} bytes: its last chunk, IEND, is missing", between=True)


def pixels(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
