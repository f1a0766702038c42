"""Parquet files of pyarrow and of `datasets`: what is counted, what is reported, and how."""

from __future__ import annotations

import io

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harm import kinds, seen
from PIL import Image
from tables import GROUP, ROWS, TABLE, TEXT, parquet

from unstuck.checking.noting import Wish
from unstuck.checking.one import check
from unstuck.checking.tables.contents import Contents

NAME = "part-0.parquet"


def page_of(data: bytes, group: int, column: str) -> tuple[int, int]:
    """Where a column of a row group stands."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    number = [metadata.schema.column(one).path for one in range(metadata.num_columns)].index(column)
    chunk = metadata.row_group(group).column(number)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return start, start + chunk.total_compressed_size


def zeroed(data: bytes, *places: tuple[int, int]) -> bytes:
    bad = bytearray(data)
    for start, end in places:
        bad[start:end] = bytes(end - start)
    return bytes(bad)


def spoiled(column: list[bytes], kind: pa.DataType) -> pa.Array:
    """Bytes that are called text, as C++ programs write them."""
    return pa.array(column, pa.large_binary() if kind == pa.large_string() else pa.binary()).view(kind)


@pytest.fixture(scope="module")
def plain() -> bytes:
    return parquet()


def test_a_whole_file_has_no_fault_and_all_its_rows_are_counted(tmp_path, plain):
    found = seen(tmp_path, NAME, plain)

    assert (found.format, found.faults) == ("parquet", [])
    assert (found.samples, found.row_groups, found.read) == (ROWS, ROWS // GROUP, len(plain))
    assert found.columns["text"] == "string"
    assert found.columns["tags"].startswith("list<")


def test_text_is_counted_as_python_counts_it(tmp_path):
    texts = ["plain", "über 世界 🎈", "", " \t\n", "\u3000\u00a0", None, "a" * 1000, "  x  "]
    forms = {
        "string": pa.array(texts),
        "large": pa.array(texts, pa.large_string()),
        "view": pa.array(texts, pa.string_view()),
        "dictionary": pa.array(texts).dictionary_encode(),
    }

    found = seen(tmp_path, NAME, parquet(pa.table(forms), row_group_size=3))

    there = [one for one in texts if one is not None]
    expected = (len(texts), 1, sum(not one.strip() for one in there), sum(map(len, there)))
    assert {one.column: (one.documents, one.nulls, one.blanks, one.characters) for one in found.texts} == dict.fromkeys(
        forms, expected
    )


def test_a_column_of_few_different_texts_is_counted_without_writing_them_out(tmp_path):
    """Two million characters times 30,000 rows would be 60 GB."""
    numbers = pa.array([(0, 1, None)[row % 3] for row in range(30_000)], pa.int32())
    table = pa.table({"text": pa.DictionaryArray.from_arrays(numbers, ["x" * 2_000_000, "  "])})
    data = parquet(table, row_group_size=30_000, dictionary_pagesize_limit=1 << 24, store_schema=False)

    found = seen(tmp_path, NAME, data)

    (texts,) = found.texts
    assert (texts.documents, texts.nulls, texts.blanks) == (30_000, 10_000, 10_000)
    assert texts.characters == 10_000 * 2_000_002


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
    assert "8 bytes stand behind its end" in fault.what


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


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_text_that_is_not_utf_8_is_told_by_its_row(tmp_path, kind):
    rows = [b"fine"] * ROWS
    rows[100], rows[201] = b"caf\xe9", "über".encode()[:1]

    found = seen(tmp_path, NAME, parquet(pa.table({"text": spoiled(rows, kind)})))

    assert [(one.kind, one.row, one.member, one.sample) for one in found.faults] == [
        ("undecodable", 100, "text", "100"),
        ("undecodable", 201, "text", "201"),
    ]
    assert found.texts[0].characters == 4 * (ROWS - 2)


def test_text_in_a_list_that_is_not_utf_8_is_told_by_its_row(tmp_path):
    lists = pa.ListArray.from_arrays([0, 1, 3, 4], spoiled([b"a", b"b", b"\xff", b"d"], pa.string()))

    found = seen(tmp_path, NAME, parquet(pa.table({"tags": lists})))

    assert [(one.kind, one.row, one.member) for one in found.faults] == [("undecodable", 1, "tags")]


def test_zeros_within_a_text_are_a_block_that_was_lost(tmp_path):
    text = "some words " * 500
    data = parquet(pa.table({"text": [text, text, text]}), compression="none", use_dictionary=False)
    at = data.index(text.encode()) + 1000

    (fault,) = seen(tmp_path, NAME, zeroed(data, (at, at + 1024))).faults

    assert (fault.kind, fault.row, fault.member) == ("zeros", 0, "text")


def test_texts_of_a_single_zero_character_are_no_lost_block(tmp_path):
    data = parquet(pa.table({"code": ["\0"] * 5000, "padded": ["ab\0\0"] * 5000}), use_dictionary=False)

    assert kinds(tmp_path, NAME, data) == []


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


def test_text_that_is_the_same_in_every_row_is_unfolded_in_small_batches(tmp_path, monkeypatch):
    """A prompt of 20,000 characters in each of 5,000 rows takes some hundred bytes on disk, and 100 MB in memory."""
    data = parquet(
        pa.table({"chat": pa.array([[{"content": "x" * 20_000}]] * 5_000)}), row_group_size=5_000, compression="zstd"
    )
    before, peak = pa.total_allocated_bytes(), []
    monkeypatch.setattr(Contents, "add", lambda *_, **__: peak.append(pa.total_allocated_bytes() - before))

    found = seen(tmp_path, NAME, data)

    assert (found.faults, found.samples) == ([], 5_000)
    assert 0 < max(peak) < 32 << 20


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


def test_names_of_columns_cannot_reach_the_terminal(tmp_path):
    name = "red\x1b[31m\n" + "x" * 1000
    data = parquet(pa.table({name: spoiled([b"\xff"], pa.string())}))

    found = seen(tmp_path, NAME, data)

    shown = [*found.columns, found.texts[0].column, found.faults[0].what, found.faults[0].member]
    assert all(one.isprintable() and len(one) < 500 for one in shown)


def pictures(count: int = 30) -> list[bytes]:
    out = []
    for number in range(count):
        buffer = io.BytesIO()
        Image.effect_noise((40, 40), 60 + number).save(buffer, "JPEG")
        out.append(buffer.getvalue())
    return out


def test_images_in_a_column_are_decoded_where_that_is_asked_for(tmp_path):
    images = pictures()
    images[7], images[20] = images[7][: len(images[7]) // 2], b"<html>not found</html>"
    data = parquet(pa.table({"image": [{"bytes": one, "path": None} for one in images]}))

    found, glanced = seen(tmp_path, NAME, data, Wish(decode=True)), seen(tmp_path, NAME, data)

    assert sorted((one.kind, one.row, one.member) for one in found.faults) == [
        ("image", 7, "image"),
        ("image", 20, "image"),
    ]
    assert (found.decoded, glanced.faults) == (29, [])


def test_zeros_in_an_image_are_seen_without_decoding_it(tmp_path):
    buffer = io.BytesIO()
    Image.effect_noise((300, 300), 90).save(buffer, "JPEG")
    image = buffer.getvalue()
    bad = zeroed(image, (len(image) // 2, len(image) // 2 + 4096))

    found = seen(tmp_path, NAME, parquet(pa.table({"jpg": [image, bad, image]})))

    assert [(one.kind, one.row) for one in found.faults] == [("zeros", 1)]


def test_bytes_that_are_no_images_may_be_anything(tmp_path):
    data = parquet(pa.table({"blob": [b"", b"\xff\xd8\xff\xe0", b"anything", bytes(10_000)]}))

    assert kinds(tmp_path, NAME, data, Wish(decode=True)) == ["image"]  # one that begins as a JPEG and is none


def test_documents_of_the_table_are_what_was_written(tmp_path, plain):
    texts = {one.column: one for one in seen(tmp_path, NAME, plain).texts}

    assert texts.keys() == {"text", "label"}
    assert (texts["text"].nulls, texts["text"].blanks) == (TEXT.count(None), TEXT.count(""))
