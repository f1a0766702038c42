"""Parquet: every page of every column is decompressed and decoded, because hardly a writer adds checksums."""

from __future__ import annotations

from typing import IO

from ..noting import Notes
from ..reading import Stream

NAME = "parquet"
ENDINGS = (".parquet", ".pq", ".parq")
SEEKS = True
LIBRARY = "pyarrow"
MAGIC, ENCRYPTED = b"PAR1", b"PARE"


def claims(head: bytes) -> bool:
    return head.startswith((MAGIC, ENCRYPTED))


def glance(raw: IO[bytes], notes: Notes) -> None:
    """Its footer."""
    from ..tables.footer import footer, told
    from ..tables.source import opened

    found = footer(raw, opened(raw), notes)
    if found is not None:
        notes.moved(min(found.file.metadata.serialized_size, notes.size - notes.read))
        told(found.file, notes)


def read(stream: Stream, notes: Notes) -> None:
    from ..tables.columns import decoding
    from ..tables.footer import footer, told
    from ..tables.row_groups import RowGroups
    from ..tables.source import ahead_of, opened, too_large

    source = opened(stream.raw)
    found = footer(stream.raw, source, notes)
    rows = told(found.file, notes) if found is not None else []
    if found is None or not rows:
        return
    with ahead_of(stream.raw, notes) as ahead:
        try:
            RowGroups(decoding(source, found.file.metadata, found.first), rows, notes, ahead).read()
        except MemoryError:
            too_large(notes)
