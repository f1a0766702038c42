"""Parquet files cut, altered and zeroed at many places: whatever pyarrow fails at is reported. Healthy ones are not."""

from __future__ import annotations

import io
import itertools

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harm import cuts, flips, holes, seen
from tables import GROUP, TABLE, parquet, verdict

pytestmark = pytest.mark.scenario

NAME = "part-0.parquet"
DELTAS = {"id": "DELTA_BINARY_PACKED", "text": "DELTA_LENGTH_BYTE_ARRAY", "label": "DELTA_BYTE_ARRAY"}
PLAIN = {
    "snappy": {},
    "zstd": {"compression": "zstd", "data_page_version": "2.0"},
    "none": {"compression": "none", "use_dictionary": False},
    "gzip-1.0": {"compression": "gzip", "version": "1.0"},
    "deltas": {"use_dictionary": False, "column_encoding": DELTAS},
}
SUMMED = {
    "none": {"compression": "none", "write_page_checksum": True},
    "zstd": {"compression": "zstd", "write_page_checksum": True, "data_page_version": "2.0"},
}


def through_both(data: bytes) -> pa.Table:
    """As a data set, and as one file: they do not fail at the same things."""
    pq.ParquetFile(io.BytesIO(data)).read(use_threads=False)
    return pq.read_table(io.BytesIO(data), use_threads=False)


def damages(data: bytes):
    yield from cuts(data, 40)
    yield from (bad for _, bad in flips(data, 150))
    yield from (bad for size in (8, 100, 4096) for _, bad in holes(data, 20, size))
    start = len(data) - int.from_bytes(data[-8:-4], "little") - 8
    yield from (data[:start] + bad for _, bad in flips(data[start:], 60))


@pytest.mark.parametrize("how", PLAIN)
def test_whatever_pyarrow_fails_at_is_reported(tmp_path, how):
    data = parquet(**PLAIN[how])
    whole, missed, altered = through_both(data), [], 0

    for number, bad in enumerate(damages(data)):
        found = seen(tmp_path, NAME, bad)
        comes = verdict(bad, through_both, whole)
        if comes in ("fails", "fewer") and not found.faults:
            missed.append((number, len(bad)))
        altered += comes == "differs" and not found.faults

    assert missed == [], f"and {altered} others alter values, which nothing in such a file can show"


@pytest.mark.parametrize("how", SUMMED)
def test_with_checksums_no_altered_value_is_missed(tmp_path, how):
    data = parquet(**SUMMED[how])
    whole, missed = through_both(data), []
    pages = len(data) - int.from_bytes(data[-8:-4], "little") - 8

    for at, bad in itertools.chain(
        flips(data[:pages], 200), holes(data[:pages], 50, 64), holes(data[:pages], 20, 4096)
    ):
        damaged = bad + data[pages:]
        if verdict(damaged, through_both, whole) != "same" and not seen(tmp_path, NAME, damaged).faults:
            missed.append(at)

    assert missed == []


def ways() -> list[dict[str, object]]:
    """Each version, page, compression, with and without what else can be chosen: every seventh of them all."""
    choices = {
        "version": ("1.0", "2.4", "2.6"),
        "data_page_version": ("1.0", "2.0"),
        "compression": ("none", "snappy", "zstd", "gzip", "brotli", "lz4"),
        "use_dictionary": (True, False),
        "write_statistics": (True, False),
        "row_group_size": (GROUP, 1000),
        "write_page_checksum": (False, True),
        "write_page_index": (False, True),
        "store_schema": (True, False),
    }
    return [dict(zip(choices, one, strict=True)) for one in itertools.product(*choices.values())][::37]


def test_no_file_that_pyarrow_writes_has_a_fault(tmp_path):
    faults = {str(how): found.faults for how in ways() if (found := seen(tmp_path, NAME, parquet(**how))).faults}

    assert faults == {}


def test_no_file_that_datasets_writes_has_a_fault(tmp_path):
    datasets.Dataset(TABLE).to_parquet(tmp_path / "made.parquet", batch_size=50)

    found = seen(tmp_path, NAME, (tmp_path / "made.parquet").read_bytes())

    assert (found.faults, found.samples) == ([], len(TABLE))


TYPES = {
    "nothing": pa.nulls(5),
    "half": pa.array([1, 2, 3, 4, None], pa.float16()),
    "moment": pa.array([1, 2, 3, 4, None], pa.timestamp("ns", "UTC")),
    "money": pa.array([1, 2, 3, 4, None], pa.decimal128(20, 2)),
    "fixed": pa.array([b"abcd", None] * 2 + [b"efgh"], pa.binary(4)),
    "map": pa.array([[("a", 1)], [], None, [("b", None)], []], pa.map_(pa.string(), pa.int64())),
    "vector": pa.array([[1.0, 2.0]] * 5, pa.list_(pa.float32(), 2)),
    "deep": pa.array([[[{"a": ["x"]}]], [], None, [[]], [[None]]]),
    "json": pa.array(['{"a": 1}'] * 5, pa.json_()),
    "entries": pa.array(["a", None, "b", "a", "a"]).dictionary_encode(),
    "all null": pa.array([None] * 5, pa.string()),
}


@pytest.mark.parametrize("kind", TYPES)
def test_no_type_is_a_fault(tmp_path, kind):
    found = seen(tmp_path, NAME, parquet(pa.table({kind: TYPES[kind]}), row_group_size=2))

    assert (found.faults, found.samples, found.row_groups) == ([], 5, 3)
