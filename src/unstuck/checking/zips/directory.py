"""The directory of a zip archive, which stands at its end and says where every member is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

from ..broken import Broken
from ..noting import Notes

END = struct.Struct("<4s4H2LH")
LOCATOR = struct.Struct("<4sLQL")
END64 = struct.Struct("<4sQ2H2L4Q")
ENTRY = struct.Struct("<4s6H3L5H2L")
COMMENT = 1 << 16  # bytes that may stand behind the end record
PIECE = 1 << 20
LARGE = 0xFFFFFFFF  # stands for: see the 64-bit field


class Directory(NamedTuple):
    """Where it is, and how many members it announces."""

    at: int
    size: int
    entries: int
    shift: int  # bytes in front of the archive that its offsets do not count
    behind: int  # bytes behind its end


class Entry(NamedTuple):
    """One member."""

    raw_name: bytes
    version: int  # of the format, ten times
    flags: int
    method: int
    crc: int
    packed: int  # bytes in the archive
    size: int
    at: int  # of its own header

    @property
    def name(self) -> str:
        return self.raw_name.decode("utf-8" if self.flags & 0x800 else "cp437", "replace")


class Places:
    """A file of which bytes are wanted here and there. What is read is counted."""

    def __init__(self, raw: IO[bytes], notes: Notes) -> None:
        self._raw, self._notes, self.size = raw, notes, notes.size

    def read(self, at: int, count: int) -> bytes:
        """Up to so many."""
        self._raw.seek(at)
        data = self._raw.read(count) or b""
        self._notes.moved(len(data))
        return data


def directory(places: Places) -> Directory:
    """Raises Broken."""
    start = max(0, places.size - END.size - COMMENT)
    tail = places.read(start, END.size + COMMENT)
    place = tail.rfind(b"PK\5\6", 0, len(tail) - END.size + 4)
    if place < 0:
        raise Broken(
            "cut", f"its directory is missing, which stands at the end: {places.size:,} bytes are there", places.size
        )
    _, _, _, _, entries, size, at, comment = END.unpack_from(tail, place)
    record = start + place
    behind = places.size - record - END.size - comment
    wide = _wide(places, record)
    if wide is not None:
        record, entries, size, at = wide
    shift = record - size - at
    if shift < 0 or size < entries % (1 << 16) * ENTRY.size:
        raise Broken(
            "damaged", f"its end says that the directory stands at byte {at:,} with {size:,} bytes; it does not", record
        )
    return Directory(at + shift, size, entries, shift, behind)


def _wide(places: Places, end: int) -> tuple[int, int, int, int] | None:
    """Of an archive that is too large for the fields of 32 bits, or whose writer did not know: what stands there."""
    if end < LOCATOR.size:
        return None
    found = places.read(end - LOCATOR.size, LOCATOR.size)
    if found[:4] != b"PK\6\7":
        return None
    at = end - LOCATOR.size - END64.size  # where it always is; its announced offset does not count what was put before
    data = places.read(at, END64.size) if at >= 0 else b""
    if data[:4] != b"PK\6\6":
        raise Broken("damaged", f"the end of its directory, at byte {at:,}, is damaged", at)
    *_, entries, size, offset = END64.unpack(data)
    return at, entries, size, offset


def entries(places: Places, found: Directory) -> Iterator[Entry]:
    """One after the other; the directory itself is never held as a whole. Raises Broken."""
    at, until, count = found.at, found.at + found.size, 0
    while at < until:
        data, used = places.read(at, min(PIECE, until - at)), 0
        while used + ENTRY.size <= len(data) and data.startswith(b"PK\1\2", used):
            fields = ENTRY.unpack_from(data, used)
            end = used + ENTRY.size + sum(fields[10:13])
            if end > len(data):
                break
            yield _entry(fields, data[used + ENTRY.size : end], found.shift)
            used, count = end, count + 1
        if not used:
            raise Broken("damaged", f"its directory is damaged at byte {at:,}, behind {count:,} of its members", at)
        at += used
    if count & 0xFFFF != found.entries & 0xFFFF:
        raise Broken("damaged", f"its directory announces {found.entries:,} members and names {count:,}", found.at)


def _entry(fields: tuple[int, ...], rest: bytes, shift: int) -> Entry:
    _, _, version, flags, method, _, _, crc, packed, size, named, extra, *_, at = fields
    if LARGE in (packed, size, at):
        size, packed, at = _wide_fields(rest[named : named + extra], [size, packed, at])
    name = rest[:named]
    return Entry(name, version & 0xFF, flags, method, crc, packed, size, at + shift)


def _wide_fields(extra: bytes, fields: list[int]) -> list[int]:
    """Of those that do not fit, the real value stands in an extra field, in this order."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        values = [one[0] for one in struct.iter_unpack("<Q", extra[4 : 4 + length - length % 8])]
        if kind == 1:
            return [values.pop(0) if field == LARGE and values else field for field in fields]
        extra = extra[4 + length :]
    return fields
