"""The columns of a parquet file: whether they are what the schema says, how to decode them, and which are bad."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...wording.printable import shortened
from .source import refusal, refusals

BUDGET = 8 << 20  # bytes of one batch, decoded: larger ones were no faster
ROWS = 1 << 16  # of one batch at most
NUMBER = 8  # bytes of a value that is no text
MANY = 20_000  # rows in a row group
LOOKED_AT = 32  # row groups by which it is decided how to read all


class Bad(NamedTuple):
    """A column of which something cannot be decoded, and where it stands in the file."""

    name: str
    at: int
    until: int
    why: str


class Decoding(NamedTuple):
    """How a file is decoded: in one thread, because others read other files beside it."""

    file: Any
    rows: int  # of a batch


def decoding(source: Any, metadata: Any, first: Any) -> Decoding:
    """By what the footer says, and by the first rows: text that is the same in every row is written only once."""
    import pyarrow.parquet as pq

    packed = _packed(metadata)
    file = pq.ParquetFile(
        source, metadata=metadata, read_dictionary=packed, pre_buffer=False, page_checksum_verification=True
    )
    widths = [_width(metadata, number) for number in _some(metadata)]
    if first is not None and first.num_rows:
        names = [one for one in range(first.num_columns) if first.schema.field(one).name not in packed]
        widths.append(sum(first.column(one).nbytes for one in names) / first.num_rows)
    return Decoding(file, max(min(int(BUDGET / max(widths)), ROWS), 1))


def bad_columns(file: Any, group: int, size: int) -> list[Bad]:
    found = []
    for number in range(file.metadata.num_columns):
        path = file.metadata.schema.column(number).path
        why = _wrong(file, group, path, size)
        if why:
            found.append(Bad(shortened(path), *_place(file.metadata.row_group(group).column(number)), why))
    return found


def mistyped(metadata: Any) -> str:
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


def _some(metadata: Any) -> range:
    """Row groups that stand for all."""
    return range(0, metadata.num_row_groups, max(metadata.num_row_groups // LOOKED_AT, 1))


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


def _wrong(file: Any, group: int, path: str, size: int) -> str:
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
