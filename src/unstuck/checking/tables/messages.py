"""The messages of an arrow file, found without decoding what they hold: where each stands, and how many rows it has.

pyarrow does not say it. It is needed where pyarrow gives up: to tell what is lost, and where to go on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

MARK = b"\xff\xff\xff\xff"  # before the length of each message; writers before 2019 left it out
PREFIX = 8
ALIGNED = 8
PIECE = 1 << 20
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
LARGEST = 1 << 28  # bytes in which a message says what it is: more is a lie
MOST = 1 << 40  # bytes, or rows, of one message: more, too


class Message(NamedTuple):
    """One of them. Of a file that was cut its end may lie behind the end of the file."""

    at: int
    kind: int
    end: int
    rows: int


def begins_stream(head: bytes) -> bool:
    """Whether the first message of an arrow stream stands there: its schema."""
    length = int.from_bytes(head[4:PREFIX], "little")
    if not head.startswith(MARK) or not 0 < length <= LARGEST:
        return False
    try:
        kind, body, _ = _described(head[PREFIX : PREFIX + length])
    except struct.error:
        return False
    return kind == SCHEMA and body == 0


def message_at(source: Any, at: int, size: int) -> Message | None:
    """The message that begins there, if one does. Of one that is cut before it says what it is, the kind is 0."""
    prefix = read_at(source, at, PREFIX)
    marked = prefix[:4] == MARK
    length = int.from_bytes(prefix[4:] if marked else prefix[:4], "little")
    start = at + (PREFIX if marked else PREFIX - len(MARK))
    if len(prefix) < PREFIX:
        return Message(at, 0, at + PREFIX, 0) if prefix else None
    if not 0 < length <= LARGEST:
        return None
    if start + length > size:
        return Message(at, 0, start + length, 0)
    try:
        kind, body, rows = _described(read_at(source, start, length))
    except struct.error:
        return None
    known = kind in (SCHEMA, DICTIONARY, BATCH) and 0 <= body <= MOST and 0 <= rows <= MOST
    return Message(at, kind, start + length + body, rows) if known else None


def messages(source: Any, at: int, size: int) -> Iterator[Message]:
    """Whole ones, one after the other, as far as each leads to the next."""
    while (found := message_at(source, at, size)) is not None and found.end <= size:
        yield found
        at = found.end


def next_message(source: Any, at: int, size: int) -> Message | None:
    """The first one with data that stands whole at this place or behind it."""
    at = -(-at // ALIGNED) * ALIGNED
    while at < size:
        data = read_at(source, at, PIECE)
        place = data.find(MARK)
        while place >= 0:
            found = message_at(source, at + place, size) if place % ALIGNED == 0 else None
            if found is not None and found.end <= size and found.kind in (DICTIONARY, BATCH):
                return found
            place = data.find(MARK, place + 1)
        at += PIECE
    return None


def batches_behind(source: Any, at: int, size: int) -> Iterator[Message]:
    """Record batches at this place or behind it, whatever stands between them."""
    found = next_message(source, at, size)
    while found is not None:
        for found in messages(source, found.at, size):  # noqa: B020
            if found.kind == BATCH:
                yield found
        found = next_message(source, found.end, size)


def read_at(source: Any, at: int, count: int) -> bytes:
    source.seek(at)
    data: bytes = source.read(count)
    return data


def blocks(data: bytes) -> list[int]:
    """Where the record batches begin, by the footer of an arrow file."""
    try:
        place = _field(data, _unsigned(data, 0), 3)
        start = place + _unsigned(data, place)
        count = _unsigned(data, start) if place else 0
        return [struct.unpack_from("<q", data, start + 4 + 24 * number)[0] for number in range(count)]
    except struct.error:
        return []


def _described(data: bytes) -> tuple[int, int, int]:
    """The kind of a message, the bytes of its body, and its rows: a table of Flatbuffers, of which a few fields."""
    table = _unsigned(data, 0)
    (kind,) = struct.unpack_from("<B", data, _field(data, table, 1))
    (body,) = struct.unpack_from("<q", data, place) if (place := _field(data, table, 3)) else (0,)
    rows = 0
    if kind == BATCH:
        header = _field(data, table, 2)
        inner = header + _unsigned(data, header)
        (rows,) = struct.unpack_from("<q", data, place) if (place := _field(data, inner, 0)) else (0,)
    return kind, body, rows


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table stands; 0: it has its default."""
    (back,) = struct.unpack_from("<i", data, table)
    fields = table - back
    (size,) = struct.unpack_from("<H", data, fields)
    place = 4 + 2 * number
    if fields < 0 or place >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, fields + place)
    return table + offset if offset else 0


def _unsigned(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])
