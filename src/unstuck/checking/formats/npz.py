"""Arrays that numpy saved together: a zip archive with an array in each member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from ..alone import first_fault
from ..arrays.header import LONGEST, array_of
from ..broken import Broken
from ..noting import Notes
from ..reading import Stream
from ..zips.archive import glance_at, read_members
from ..zips.directory import Entry

NAME = "npz"
ENDINGS = (".npz",)
SEEKS = True
START = LONGEST + 12


def claims(head: bytes) -> bool:
    """Its first member is an array: many other things are zip archives."""
    named = int.from_bytes(head[26:28], "little")
    return head.startswith(b"PK\3\4") and head[30 : 30 + named].endswith(b".npy")


def read(stream: Stream, notes: Notes) -> None:
    read_members(stream.raw, notes, _look, open_=True)


def glance(raw: IO[bytes], notes: Notes) -> None:
    glance_at(raw, notes)


def _look(entry: Entry, data: Iterator[bytes]) -> None:
    start = b""
    for piece in data:
        start += piece[: START - len(start)]
    if not entry.raw_name.endswith(b".npy"):
        return
    array = array_of(start)
    have = entry.size - array.header
    if array.data is not None and array.data != have:
        raise Broken("damaged", f"its array of {array.words} has {array.data:,} bytes; {have:,} are there", entry.at)


def decoded(data: bytes | memoryview) -> str:
    return first_fault(read, data)
