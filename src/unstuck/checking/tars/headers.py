"""Headers of tar archives: 512 bytes with a checksum, in the forms that writers really write."""

from __future__ import annotations

import zlib
from typing import NamedTuple

BLOCK = 512
ZEROS = bytes(BLOCK)
REGULAR = (b"0", b"\0", b"7", b"S")
LINKS = (b"1", b"2")
LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL, SPARSE = b"L", b"K", b"x", b"g", b"S"
EXTENSIONS = (LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL, b"X")
# What has no data whatever its size says, as Python's tarfile sees it: links, devices, folders, pipes.
WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")
BASE = 65521  # of Adler-32, whose lower half is the sum of all bytes: fifty times faster than adding them up here
LARGEST = 1 << 63


class Header(NamedTuple):
    """One member, as far as its own block tells."""

    name: bytes
    size: int
    kind: bytes
    link: bytes
    extended: bool = False  # a sparse file with more of its map in the blocks that follow

    @property
    def padded(self) -> int:
        """Bytes of its data in the archive."""
        return 0 if self.kind in WITHOUT_DATA else -(-self.size // BLOCK) * BLOCK


def parse(raw: bytes) -> Header | None:
    """None: it is no header, or a damaged one."""
    if not _adds_up(raw):
        return None
    size = _number(raw[124:136])
    if size is None or not 0 <= size < LARGEST:
        return None
    kind, name = raw[156:157], raw[:100].partition(b"\0")[0]
    if raw[257:263] == b"ustar\0" and raw[345] and kind != SPARSE:
        name = raw[345:500].partition(b"\0")[0] + b"/" + name
    if kind == b"\0" and name.endswith(b"/"):
        kind = b"5"
    return Header(name, size, kind, raw[157:257].partition(b"\0")[0], kind == SPARSE and raw[482] == 1)


def _adds_up(raw: bytes) -> bool:
    field = raw[148:156]
    stored = _number(field)
    if stored is None:
        return False
    apart = sum(field) - 8 * 0x20  # the checksum counts itself as eight spaces
    if zlib.adler32(raw) & 0xFFFF == (stored + apart + 1) % BASE:
        return True
    signed = sum(raw) - 256 * sum(one > 127 for one in raw)  # old writers add up signed characters
    return signed - sum(field) + 8 * 0x20 == stored and raw != ZEROS


def _number(field: bytes) -> int | None:
    """Octal digits; or, where it is too large for these, binary."""
    if field[0] in (0x80, 0xFF):
        value = int.from_bytes(field[1:], "big")
        return value if field[0] == 0x80 else value - (1 << 8 * (len(field) - 1))
    digits = field.partition(b"\0")[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def pax(data: bytes) -> dict[bytes, bytes] | None:
    """`25 path=some/long/name` lines. None: it is damaged."""
    found, at = {}, 0
    while at < len(data) and data[at] != 0:
        length, _, _ = data[at : at + 20].partition(b" ")
        if not length.isdigit() or not 5 <= int(length) <= len(data) - at:
            return None
        line = data[at + len(length) + 1 : at + int(length)]
        key, equals, value = line.partition(b"=")
        if not equals or not line.endswith(b"\n"):
            return None
        found[key] = value[:-1]
        at += int(length)
    return found


def look_for(data: bytes | bytearray, start: int, end: int, phase: int) -> int | None:
    """Where the next good header stands; blocks begin where `position % 512 == phase`."""
    at = start + 257
    while (at := data.find(b"ustar", at, end)) >= 0:
        place = at - 257
        if place % BLOCK == phase and place + BLOCK <= end and parse(bytes(data[place : place + BLOCK])) is not None:
            return place
        at += 1
    return None
