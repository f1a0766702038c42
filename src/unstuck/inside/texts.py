"""How many texts of an Arrow table are blank, from a few rows and without making a Python object of any of them."""

from __future__ import annotations

from typing import Any

LOOKED = 32  # rows of one table
NAMES = ("text", "content", "document", "body", "sentence")  # where there are several columns of text
TYPES: dict[str, tuple[Any, int]] = {
    "string": ("i", 4),
    "large_string": ("q", 8),
}  # of the offsets in Arrow's own layout
LONGEST = 256  # bytes: a text of more that begins with so much white space is taken for one all the same


def blanks(table: Any) -> tuple[int, int]:
    """Rows looked at, and those without any text: empty, null, or white space only."""
    schema = table.schema
    columns = [at for at, kind in enumerate(schema.types) if str(kind) in TYPES]
    if not columns or not table.num_rows:
        return 0, 0
    named = [at for name in NAMES for at in columns if schema.names[at] == name][:1]
    found = [_of_column(table.column(at)) for at in named or columns]
    looked = max(one[0] for one in found)
    return looked, min(one[1] for one in found)


def _of_column(column: Any) -> tuple[int, int]:
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    step = max(sum(len(one) for one in chunks) // LOOKED, 1)
    looked = blank = 0
    for chunk in chunks:
        rows, empty = _of_chunk(chunk, step)
        looked += rows
        blank += empty
    return looked, blank


def _of_chunk(chunk: Any, step: int) -> tuple[int, int]:
    """A null has no length, as an empty text has none."""
    code, width = TYPES[str(chunk.type)]
    _, offsets, data = chunk.buffers()
    if offsets is None:
        return 0, 0
    first = chunk.offset
    bounds = memoryview(offsets).cast("B")[first * width : (first + len(chunk) + 1) * width].cast(code)
    text = memoryview(data).cast("B") if data is not None else memoryview(b"")
    rows = range(0, len(chunk), step)
    return len(rows), sum(_is_blank(text, bounds[row], bounds[row + 1]) for row in rows)


def _is_blank(text: memoryview, begin: int, end: int) -> bool:
    return begin == end or (end - begin <= LONGEST and not bytes(text[begin:end]).strip())
