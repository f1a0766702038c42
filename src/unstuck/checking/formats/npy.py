"""Arrays that numpy saved: one, or several behind each other."""

from __future__ import annotations

from typing import IO

from ..alone import first_fault
from ..arrays.header import FIRST, LONGEST, MAGIC, Array, array_of, length_of
from ..arrays.passing import ALL, pass_over, take
from ..broken import Broken
from ..noting import Notes
from ..reading import Stream

NAME = "npy"
ENDINGS = (".npy",)


def claims(head: bytes) -> bool:
    return head.startswith(MAGIC)


def read(stream: Stream, notes: Notes) -> None:
    at = arrays = 0
    try:
        while start := take(stream, FIRST):
            array = _next(start, stream, at, arrays)
            have = pass_over(stream, ALL if array.data is None else array.data)
            at += array.header + have
            _whole(array, have, at)
            arrays += 1
    except Broken as broken:
        if broken.kind != "cut" or not notes.broken:
            notes.fault(broken.kind, broken.what, at=at if broken.at is None else broken.at)
    notes.facts(members=arrays)


def _next(start: bytes, stream: Stream, at: int, number: int) -> Array:
    if number and not start.startswith(MAGIC):
        raise Broken("damaged", f"behind its array, from byte {at:,} on, stands something else", at)
    return array_of(start + take(stream, length_of(start) - len(start)))


def _whole(array: Array, have: int, at: int) -> None:
    """Objects are not unpickled: only who does that knows where they end."""
    if array.data is not None and have < array.data:
        raise Broken("cut", f"its array of {array.words} has {array.data:,} bytes; {have:,} of them are there", at)


def glance(raw: IO[bytes], notes: Notes) -> None:
    """Its first header, and whether as many bytes follow."""
    raw.seek(0)
    start = raw.read(LONGEST + FIRST)
    notes.moved(len(start))
    try:
        array = array_of(start)
        _whole(array, notes.size - array.header, notes.size)
    except Broken as broken:
        notes.fault(broken.kind, broken.what, at=broken.at or 0)


def decoded(data: bytes | memoryview) -> str:
    return first_fault(read, data)
