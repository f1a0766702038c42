"""Parquet: every page of every column is decompressed and decoded, because hardly a writer adds checksums.

The footer, at the end, says what a file holds: without it nothing of the file can be read. The row groups are read in
one go, as training reads them. Where pyarrow refuses to go on, the row group in which that is and its columns are read
alone, to say which are bad; then it goes on with the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import IO, Any, NamedTuple

from ...wording.printable import shortened
from ...wording.text import many
from ..files import Stream
from ..notes import Notes
from . import Format
from .arrow_source import (
    ReadAhead,
    is_here,
    kind_of,
    last_bytes,
    memory_of,
    open_source,
    reading_ahead,
    refusal,
    refusals,
    too_large,
    without_end,
)
from .columns import Contents, columns_of

MAGIC, ENCRYPTED = b"PAR1", b"PARE"
TAIL = 8  # the footer's length, and the magic again
SMALLEST = len(MAGIC) + TAIL
MOST_ROWS = 1 << 36  # rows of one file: a few bytes can claim more, and decoding that many takes minutes
SIDECARS = ("_metadata", "_common_metadata")  # what Spark and Dask write about the files beside it
FIRST_ROWS = 16
BLOCK = 1 << 16  # bytes that are fetched at a time of a file that lies elsewhere
# What pyarrow raises where it decodes; where it is only asked about the columns, it aborts the process.
FATAL, SECRET = "histogram size mismatch", "decrypt"
FEWER = 16  # times fewer rows in a batch, where memory was not enough
NAMED = 3  # bad columns of one row group that are named
BUDGET = 8 << 20  # bytes of one batch, decoded: larger ones were no faster
BATCH_ROWS = 1 << 16  # of one batch at most
NUMBER = 8  # bytes of a value that is no text
MANY = 20_000  # rows in a row group
LOOKED_AT = 32  # row groups by which it is decided how to read all


def claims(head: bytes) -> bool:
    return head.startswith((MAGIC, ENCRYPTED))


def glance(raw: IO[bytes], notes: Notes) -> None:
    """Its footer."""
    found = _footer(raw, open_source(raw), notes)
    if found is not None:
        notes.moved(min(found.file.metadata.serialized_size, notes.size - notes.read))
        _note_footer(found.file, notes)


def read(stream: Stream, notes: Notes) -> None:
    source = open_source(stream.raw)
    found = _footer(stream.raw, source, notes)
    rows = _note_footer(found.file, notes) if found is not None else []
    if found is None or not rows:
        return
    with reading_ahead(stream.raw, notes) as ahead:
        try:
            _RowGroups(_decoding(source, found.file.metadata, found.first), rows, notes, ahead).read()
        except MemoryError:
            too_large(notes)


PARQUET = Format("parquet", (".parquet", ".pq", ".parq"), claims, read, glance, seeks=True, library="pyarrow")


class _Footer(NamedTuple):
    """pyarrow's view of the file, and its first rows."""

    file: Any
    first: Any


def _footer(raw: IO[bytes], source: Any, notes: Notes) -> _Footer | None:
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
        return _parsed_footer(source, notes, at)
    return None


def _parsed_footer(source: Any, notes: Notes, at: int) -> _Footer | None:
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
        return _Footer(file, first)
    return None


def _probed(source: Any, metadata: Any) -> tuple[Any, str]:
    """Its first rows, or why they cannot be read.
    Of a file that is here all row groups are prepared for reading, so that nothing is fatal later.
    """
    import pyarrow.parquet as pq

    here = is_here(source)
    file = pq.ParquetFile(source, metadata=metadata, pre_buffer=here, buffer_size=0 if here else BLOCK)
    try:
        return next(file.iter_batches(FIRST_ROWS, use_threads=False), None), ""
    except refusals() as error:
        return None, refusal(error)


def _note_footer(file: Any, notes: Notes) -> list[int]:
    """The rows of each row group, if there is something to read; what the footer says is noted."""
    metadata = file.metadata
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    notes.facts(samples=sum(rows), row_groups=len(rows), columns=columns_of(file.schema_arrow))
    if _speaks_of_others(metadata, notes):
        notes.facts(other="the footers of other parquet files: it has no rows of its own", samples=None)
        return []
    if min(rows, default=0) < 0 or sum(rows) > MOST_ROWS:
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


def _speaks_of_others(metadata: Any, notes: Notes) -> bool:
    if notes.path.rpartition("/")[2] in SIDECARS:
        return True
    return bool(metadata.num_row_groups and metadata.num_columns and metadata.row_group(0).column(0).file_path)


def _contradiction(metadata: Any, rows: int) -> str:
    if metadata.num_rows != rows:
        return f"it says {metadata.num_rows:,} rows, and its row groups have {rows:,}"
    return _mistyped(metadata)


def _not_understood(notes: Notes, at: int, why: str) -> None:
    what = f"the footer is corrupt, so no row can be read: {why}"
    notes.fault("damaged", what, at=at, until=notes.size)


class _RowGroups:
    """Row groups, from first to last."""

    def __init__(self, decoding: _Decoding, rows: list[int], notes: Notes, ahead: ReadAhead) -> None:
        self._file, self._size = decoding
        self._notes, self._ahead = notes, ahead
        self._starts = [0, *accumulate(rows)]  # the first row of each row group, and the number of all rows
        self._groups = len(rows)
        self._contents = Contents(self._file.schema_arrow, notes)
        self._lost = 0

    def read(self) -> None:
        first = 0
        while first < self._groups:
            ended = self._through(first, self._groups, 0)
            first = self._blame(ended) if ended.why else self._groups
        self._look_ahead(self._starts[-1])  # what stands behind the last row: indices, and the footer
        self._contents.done()
        self._notes.facts(samples=self._starts[-1] - self._lost)

    def _through(self, first: int, last: int, known: int) -> _Ended:
        """Reads these row groups. Rows before `known` were counted already."""
        row = self._starts[first]
        try:
            self._look_ahead(row + self._size)
            for batch in self._file.iter_batches(self._size, row_groups=list(range(first, last)), use_threads=False):
                batch.validate()
                seen = min(max(known - row, 0), batch.num_rows)
                self._contents.add(batch[seen:] if seen else batch, row + seen)
                row += batch.num_rows
                self._look_ahead(row + self._size)
        except refusals() as error:
            if memory_of(error) is not None and self._size > 1:
                self._size = max(self._size // FEWER, 1)
                return self._through(self._group(row), last, max(row, known))
            return _Ended(row, refusal(error), kind_of(error, self._notes))
        all_there = row == self._starts[last]
        return _Ended(row, "" if all_there else f"{row - self._starts[first]:,} rows are there")

    def _look_ahead(self, row: int) -> None:
        """About as much of the file as these rows take: compressed, they differ."""
        self._ahead.to(self._notes.size * row / self._starts[-1])

    def _group(self, row: int) -> int:
        return min(bisect_right(self._starts, row), self._groups) - 1

    def _blame(self, ended: _Ended) -> int:
        """Notes the row group in which reading ended, and gives the next one."""
        for group in range(self._group(ended.row), self._group(ended.row + self._size) + 1):
            alone = self._through(group, group + 1, ended.row)
            if alone.why:
                self._damaged(group, alone)
                return group + 1
        lost = self._starts[-1] - ended.row
        self._lost += lost
        what = f"from row {ended.row:,} on it cannot be read: {ended.why}"
        self._notes.fault("damaged", what, row=ended.row, lost=lost)
        return self._groups

    def _damaged(self, group: int, ended: _Ended) -> None:
        start, end = self._starts[group : group + 2]
        lost = end - start if ended.kind else max(end - ended.row, 0)
        kind = ended.kind or "damaged"
        self._lost += lost
        where = f"row group {group:,} of {self._groups:,}, rows {start:,} to {end - 1:,}"
        bad = _bad_columns(self._file, group, self._size)
        if not bad:
            self._notes.fault(kind, f"{where}: {ended.why}", row=start, lost=lost)
            return
        what = f"{where}: {self._named(bad)}: {bad[0].why}"
        self._notes.fault(kind, what, member=bad[0].name, row=start, at=bad[0].at, until=bad[0].until, lost=lost)

    def _named(self, bad: list[_BadColumn]) -> str:
        if len(bad) == self._file.metadata.num_columns > 1:
            return f"all {len(bad):,} columns are bad"
        names = ", ".join(column.name for column in bad[:NAMED])
        more = f" and {len(bad) - NAMED:,} more" if len(bad) > NAMED else ""
        return f"column {names} is bad" if len(bad) == 1 else f"columns {names}{more} are bad"


class _Ended(NamedTuple):
    """Where reading came to an end, and why; nothing: all is read."""

    row: int
    why: str = ""
    kind: str = ""  # of the fault, where pyarrow refused; else there are fewer rows than the footer says


class _Decoding(NamedTuple):
    """How a file is decoded: in one thread, because others read other files beside it."""

    file: Any
    rows: int  # of a batch


def _decoding(source: Any, metadata: Any, first: Any) -> _Decoding:
    """By what the footer says, and by the first rows: text that is the same in every row is written only once."""
    import pyarrow.parquet as pq

    packed = _packed(metadata)
    file = pq.ParquetFile(
        source, metadata=metadata, read_dictionary=packed, pre_buffer=False, page_checksum_verification=True
    )
    widths = [_width(metadata, number) for number in _some(metadata)]
    if first is not None and first.num_rows:
        numbers = [column for column in range(first.num_columns) if first.schema.field(column).name not in packed]
        widths.append(sum(first.column(column).nbytes for column in numbers) / first.num_rows)
    return _Decoding(file, max(min(int(BUDGET / max(widths)), BATCH_ROWS), 1))


def _packed(metadata: Any) -> list[str]:
    """Columns that are read as numbers of entries in a dictionary: with less than two bytes each they are hardly text.
    It takes a third of the time, and an entry of megabytes that is meant a million times does not fill the memory.
    Within lists and structures pyarrow cannot do it across row groups; and no batch goes across them then, so that they
    have to be large.
    """
    if metadata.num_rows < metadata.num_row_groups * MANY:
        return []
    groups = [metadata.row_group(number) for number in _some(metadata)]
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    return [
        column.path
        for number, column in enumerate(columns)
        if column.physical_type == "BYTE_ARRAY"
        and column.path == column.name
        and all(_is_packed(group.column(number)) for group in groups)
    ]


def _is_packed(column: Any) -> bool:
    first = column.dictionary_page_offset
    if not column.has_dictionary_page or first is None:
        return False
    return bool(column.total_compressed_size - (column.data_page_offset - first) < 2 * column.num_values)


def _width(metadata: Any, number: int) -> float:
    """Bytes of a row. A list of numbers may be a thousand times as large as what it is packed into."""
    group = metadata.row_group(number)
    rows = max(group.num_rows, 1)
    lists = sum(
        group.column(column).num_values / rows
        for column in range(metadata.num_columns)
        if metadata.schema.column(column).max_repetition_level
    )
    return float(max(group.total_byte_size / rows + NUMBER * (metadata.num_columns + lists), 1.0))


def _some(metadata: Any) -> range:
    """Row groups that stand for all."""
    return range(0, metadata.num_row_groups, max(metadata.num_row_groups // LOOKED_AT, 1))


class _BadColumn(NamedTuple):
    """A column of which something cannot be decoded, and where it stands in the file."""

    name: str
    at: int
    until: int
    why: str


def _bad_columns(file: Any, group: int, size: int) -> list[_BadColumn]:
    found = []
    for number in range(file.metadata.num_columns):
        path = file.metadata.schema.column(number).path
        why = _column_refusal(file, group, path, size)
        if why:
            found.append(_BadColumn(shortened(path), *_place(file.metadata.row_group(group).column(number)), why))
    return found


def _column_refusal(file: Any, group: int, path: str, size: int) -> str:
    have, need = 0, file.metadata.row_group(group).num_rows
    try:
        for batch in file.iter_batches(size, row_groups=[group], columns=[path], use_threads=False):
            batch.validate()
            have += batch.num_rows
    except refusals() as error:
        return refusal(error)
    return "" if have == need else f"{have:,} of {need:,} rows are there"


def _place(column: Any) -> tuple[int, int]:
    first = column.dictionary_page_offset
    at = first if first is not None and 0 < first < column.data_page_offset else column.data_page_offset
    return at, at + column.total_compressed_size


def _mistyped(metadata: Any) -> str:
    """A column whose type is not what the schema says: pyarrow's datasets refuse it, though a reader may not notice."""
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    types = [column.physical_type for column in columns]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column, kind in enumerate(types):
            has = group.column(column).physical_type
            if has != kind:
                return f"column {shortened(columns[column].path)} is {kind}, and {has} in row group {number:,}"
    return ""
