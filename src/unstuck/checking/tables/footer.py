"""The end of a parquet file, where it says what it holds: without it nothing of the file can be read."""

from __future__ import annotations

from typing import IO, Any, NamedTuple

from ...wording.text import many
from ..noting import Notes
from .columns import mistyped
from .contents import columns_of
from .ends import last_bytes, without_end
from .source import is_here, refusal, refusals

MAGIC, ENCRYPTED = b"PAR1", b"PARE"
TAIL = 8  # the footer's length, and the magic again
SMALLEST = len(MAGIC) + TAIL
MOST = 1 << 36  # rows of one file: a few bytes can claim more, and decoding that many takes minutes
APART = ("_metadata", "_common_metadata")  # what Spark and Dask write about the files beside it
FIRST = 16  # rows
BLOCK = 1 << 16  # bytes that are fetched at a time of a file that lies elsewhere
# What pyarrow raises where it decodes; where it is only asked about the columns, it aborts the process.
FATAL, SECRET = "histogram size mismatch", "decrypt"


class Footer(NamedTuple):
    """pyarrow's view of the file, and its first rows."""

    file: Any
    first: Any


def footer(raw: IO[bytes], source: Any, notes: Notes) -> Footer | None:
    """None: then it is noted why."""
    tail = last_bytes(raw, notes, TAIL)
    length = int.from_bytes(tail[:4], "little")
    at = notes.size - TAIL - length
    if tail.endswith(ENCRYPTED):
        notes.facts(unread="its footer is encrypted")
    elif not tail.endswith(MAGIC) or notes.size < SMALLEST:
        without_end(raw, notes, MAGIC)
    elif at < len(MAGIC):
        what = f"the footer claims to have {length:,} bytes, the file has {notes.size:,}: no row can be read"
        notes.fault("damaged", what, at=notes.size - TAIL, until=notes.size)
    else:
        return _parsed(source, notes, at)
    return None


def told(file: Any, notes: Notes) -> list[int]:
    """The rows of each row group, if there is something to read; what the footer says is noted."""
    metadata = file.metadata
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    notes.facts(samples=sum(rows), row_groups=len(rows), columns=columns_of(file.schema_arrow))
    if _speaks_of_others(metadata, notes):
        notes.facts(other="the footers of other parquet files: it has no rows of its own", samples=None)
        return []
    if min(rows, default=0) < 0 or sum(rows) > MOST:
        what = f"the footer claims {sum(rows):,} rows in a file of {notes.size:,} bytes: it was not read"
        notes.fault("hostile", what, at=notes.size - TAIL)
        notes.facts(samples=None)
        return []
    why = _contradiction(metadata, sum(rows))
    if why:
        notes.fault("damaged", f"the footer contradicts itself: {why}", at=notes.size - TAIL - metadata.serialized_size)
    elif not any(rows):
        holds = "no row group" if not rows else f"{many(len(rows), 'row group')} without a row"
        notes.fault("no-rows", f"the file is complete, and has {holds}", lost=0)
    return rows if any(rows) else []


def _contradiction(metadata: Any, rows: int) -> str:
    if metadata.num_rows != rows:
        return f"it says {metadata.num_rows:,} rows, and its row groups have {rows:,}"
    return mistyped(metadata)


def _parsed(source: Any, notes: Notes, at: int) -> Footer | None:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(source)
        columns_of(file.schema_arrow)  # it is understood, and its names are decoded, only now
    except refusals() as error:
        _not_understood(notes, at, refusal(error))
        return None
    first, why = _probed(source, file.metadata)
    if SECRET in why:
        notes.facts(unread="it is encrypted")
    elif FATAL in why:
        _not_understood(notes, at, why)
    else:
        return Footer(file, first)
    return None


def _not_understood(notes: Notes, at: int, why: str) -> None:
    what = f"the footer cannot be understood, so no row can be read: {why}"
    notes.fault("damaged", what, at=at, until=notes.size)


def _probed(source: Any, metadata: Any) -> tuple[Any, str]:
    """Its first rows, or why they cannot be read.

    Of a file that is here all row groups are prepared for reading, so that nothing is fatal later.
    """
    import pyarrow.parquet as pq

    here = is_here(source)
    file = pq.ParquetFile(source, metadata=metadata, pre_buffer=here, buffer_size=0 if here else BLOCK)
    try:
        return next(file.iter_batches(FIRST, use_threads=False), None), ""
    except refusals() as error:
        return None, refusal(error)


def _speaks_of_others(metadata: Any, notes: Notes) -> bool:
    if notes.path.rpartition("/")[2] in APART:
        return True
    return bool(metadata.num_row_groups and metadata.num_columns and metadata.row_group(0).column(0).file_path)
