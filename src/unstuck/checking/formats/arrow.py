"""Arrow files and streams; what `datasets` writes are streams."""

from __future__ import annotations

from typing import IO, Any

from ..noting import Notes
from ..reading import Stream
from ..tables.messages import begins_stream

NAME = "arrow"
ENDINGS = (".arrow", ".arrows", ".feather", ".ipc")
SEEKS = True
LIBRARY = "pyarrow"
FILE, FEATHER = b"ARROW1", b"FEA1"


def claims(head: bytes) -> bool:
    return head.startswith(FILE) or begins_stream(head)


def glance(raw: IO[bytes], notes: Notes) -> None:
    """The end of a file; of a stream, where its messages stand."""
    from ..tables.arrow_file import footer, told
    from ..tables.arrow_stream import glance_at
    from ..tables.source import opened

    raw.seek(0)
    is_file, source = raw.read(len(FILE)) == FILE, opened(raw)
    if not is_file:
        glance_at(source, notes)
        return
    reader = footer(raw, source, notes)
    if reader is not None:
        told(reader, notes)


def read(stream: Stream, notes: Notes) -> None:
    from ..tables.source import ahead_of, opened, too_large

    if stream.head.startswith(FEATHER):
        notes.facts(unread="feather version 1, which is no arrow file")
        return
    with ahead_of(stream.raw, notes) as ahead:
        try:
            _read(stream, opened(stream.raw), notes, ahead)
        except MemoryError:
            too_large(notes)


def _read(stream: Stream, source: Any, notes: Notes, ahead: Any) -> None:
    from ..tables.arrow_file import ArrowFile, footer
    from ..tables.arrow_stream import read_stream

    if not stream.head.startswith(FILE):
        read_stream(source, notes, ahead)
    elif (reader := footer(stream.raw, source, notes)) is not None:
        ArrowFile(source, reader, notes, ahead).read()
