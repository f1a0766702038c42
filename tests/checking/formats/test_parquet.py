"""Parquet files: what is counted, what is reported, and how. What pyarrow makes of the same is in another file."""

from __future__ import annotations

import io

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harm import kinds, seen
from tables import GROUP, ROWS, TABLE, parquet, zeroed

from unstuck.checking.check import check
from unstuck.checking.notes import Wish

NAME = "part-0.parquet"


def page_of(data: bytes, group: int, column: str) -> tuple[int, int]:
    """Where a column of a row group stands."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    number = [metadata.schema.column(one).path for one in range(metadata.num_columns)].index(column)
    chunk = metadata.row_group(group).column(number)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return start, start + chunk.total_compressed_size


@pytest.fixture(scope="module")
def plain() -> bytes:
    return parquet()


def test_a_whole_file_has_no_fault_and_all_its_rows_are_counted(tmp_path, plain):
    found = seen(tmp_path, NAME, plain)

    assert (found.format, found.faults) == ("parquet", [])
    assert (found.samples, found.row_groups, found.read) == (ROWS, ROWS // GROUP, len(plain))
    assert found.columns["text"] == "string"
    assert found.columns["tags"].startswith("list<")


def test_a_file_that_was_cut_has_no_footer(tmp_path, plain):
    (fault,) = seen(tmp_path, NAME, plain[:4000]).faults

    assert (fault.kind, fault.at) == ("cut", 4000)
    assert fault.what == "it ends after 4,000 bytes without a footer: no row can be read"


def test_a_file_whose_end_was_never_written_says_so(tmp_path, plain):
    (fault,) = seen(tmp_path, NAME, plain[:-4096] + bytes(4096)).faults

    assert (fault.kind, fault.at) == ("zeros", len(plain) - 4096)


def test_bytes_behind_the_end_hide_the_footer(tmp_path, plain):
    (fault,) = seen(tmp_path, NAME, plain + b"appended").faults

    assert (fault.kind, fault.at) == ("damaged", len(plain))
    assert "8 bytes follow its end" in fault.what


def test_a_damaged_footer_costs_all_rows(tmp_path, plain):
    start = len(plain) - 8 - int.from_bytes(plain[-8:-4], "little")

    (fault,) = seen(tmp_path, NAME, zeroed(plain, (start, start + 64))).faults

    assert (fault.kind, fault.at, fault.until) == ("damaged", start, len(plain))


def test_every_damaged_row_group_is_named_with_its_column_and_its_place(tmp_path, plain):
    first, last = page_of(plain, 0, "text"), page_of(plain, 2, "chat.turn")

    found = seen(tmp_path, NAME, zeroed(plain, first, last))

    one, two = found.faults
    assert (one.kind, one.member, one.row, one.lost, one.at, one.until) == ("damaged", "text", 0, GROUP, *first)
    assert (two.kind, two.member, two.row, two.lost, two.at) == ("damaged", "chat.turn", 2 * GROUP, GROUP, last[0])
    assert one.what.startswith(f"row group 0 of 3, rows 0 to {GROUP - 1}: column text is bad: ")
    assert found.samples == GROUP


def test_rows_beside_a_damaged_row_group_are_counted_once(tmp_path, plain):
    found = seen(tmp_path, NAME, zeroed(plain, page_of(plain, 1, "flag")))

    (label,) = [one for one in found.texts if one.column == "label"]
    assert ROWS - GROUP <= label.documents <= ROWS


def test_a_page_checksum_shows_what_decoding_does_not(tmp_path):
    """A digit that became another one is as good a number as before."""
    data = parquet(compression="none", use_dictionary=False, write_page_checksum=True)
    start, end = page_of(data, 1, "score")
    at = (start + end) // 2
    bad = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    (fault,) = seen(tmp_path, NAME, bad).faults

    assert (fault.kind, fault.member, fault.row) == ("damaged", "score", GROUP)
    assert "CRC" in fault.what


@pytest.mark.parametrize("groups", [{"row_group_size": 1}, {}], ids=["no row group", "an empty row group"])
def test_a_file_without_rows_says_so(tmp_path, groups):
    data = parquet(TABLE.slice(0, 0), **groups)

    assert kinds(tmp_path, NAME, data) == ["no-rows"]


@pytest.mark.parametrize("name", ["_metadata", "_common_metadata"])
def test_what_spark_and_dask_write_beside_the_files_is_no_data(tmp_path, name):
    parts: list[pq.FileMetaData] = []
    pq.write_to_dataset(TABLE, tmp_path, metadata_collector=parts)
    pq.write_metadata(TABLE.schema, tmp_path / name, metadata_collector=parts if name == "_metadata" else None)

    found = check(str(tmp_path / name), Wish()).file

    assert found.faults == []
    assert "no rows of its own" in found.other


def test_a_footer_that_claims_more_rows_than_anybody_has_is_not_believed(tmp_path):
    """Thrift writes the count of rows as a varint, here of 240, for the file and for its row group."""
    data = parquet(TABLE.select(["id"]), row_group_size=ROWS, compression="none")
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    few, many = b"\x16\xe0\x03", b"\x16" + b"\xfe" * 6 + b"\x0f"
    lying = data[start:-8].replace(few, many)
    assert lying.count(many) >= 2

    (fault,) = seen(tmp_path, NAME, data[:start] + lying + len(lying).to_bytes(4, "little") + b"PAR1").faults

    assert fault.kind == "hostile"
    assert "rows in a file of" in fault.what


def test_an_encrypted_file_is_left_unread(tmp_path, plain):
    found = seen(tmp_path, NAME, b"PARE" + plain[4:-4] + b"PARE")

    assert found.faults == []
    assert "encrypted" in found.unread


def test_a_glance_reads_the_footer_alone(tmp_path):
    data = parquet(pa.table({"text": [f"{row} " * 200 for row in range(2000)]}), compression="none", row_group_size=500)

    found = seen(tmp_path, NAME, data, Wish(whole=False))
    cut = seen(tmp_path, NAME, data[:-1], Wish(whole=False))

    assert (found.samples, found.row_groups, found.columns, found.faults) == (2000, 4, {"text": "string"}, [])
    assert found.read < len(data) / 10
    assert [one.kind for one in cut.faults] == ["cut"]


def test_a_file_elsewhere_is_read_as_one_that_is_here(tmp_path, plain):
    address = "memory://tables/part-0.parquet"
    fsspec.filesystem("memory").pipe(address, zeroed(plain, page_of(plain, 1, "text")))

    there, here = check(address, Wish()).file, seen(tmp_path, NAME, zeroed(plain, page_of(plain, 1, "text")))

    assert [(one.kind, one.what, one.at) for one in there.faults] == [
        (one.kind, one.what, one.at) for one in here.faults
    ]
    assert (there.samples, there.texts, there.read) == (here.samples, here.texts, len(plain))
