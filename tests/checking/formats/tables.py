"""Small real tables with everything in them, and what pyarrow makes of a file after damage."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 240
GROUP = 80
TEXT = [None if row % 17 == 0 else "" if row % 19 == 0 else f"a text über row {row} " * 3 for row in range(ROWS)]
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "text": pa.array(TEXT),
        "label": pa.array([("cat", "dog", "bird")[row % 3] for row in range(ROWS)]),
        "score": pa.array([None if row % 11 == 0 else row / 7 for row in range(ROWS)]),
        "tags": pa.array([[f"tag {row % 7}", "x"][: row % 3] if row % 5 else None for row in range(ROWS)]),
        "chat": pa.array([{"role": "user", "turn": row} for row in range(ROWS)]),
        "flag": pa.array([row % 2 == 0 for row in range(ROWS)]),
    }
)


def parquet(table: pa.Table = TABLE, **how: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **{"row_group_size": GROUP, "data_page_size": 1000, **how})
    return out.getvalue()


def stream(table: pa.Table = TABLE, **how: object) -> bytes:
    return _written(pa.ipc.new_stream, table, **how)


def file(table: pa.Table = TABLE, **how: object) -> bytes:
    return _written(pa.ipc.new_file, table, **how)


def _written(writer, table: pa.Table, **how: object) -> bytes:
    out = io.BytesIO()
    with writer(out, table.schema, options=pa.ipc.IpcWriteOptions(**how)) as opened:
        opened.write_table(table, max_chunksize=GROUP)
    return out.getvalue()


def verdict(data: bytes, read, whole: pa.Table) -> str:
    """What training gets of these bytes: the same, something else, fewer rows, or an error."""
    try:
        table = read(data)
        table.validate(full=True)
        same = table.equals(whole)
    except Exception:  # noqa: BLE001 - whatever pyarrow raises, training gets it
        return "fails"
    return "same" if same else "fewer" if table.num_rows < whole.num_rows else "differs"


def zeroed(data: bytes, *places: tuple[int, int]) -> bytes:
    bad = bytearray(data)
    for start, end in places:
        bad[start:end] = bytes(end - start)
    return bytes(bad)
