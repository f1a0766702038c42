"""Text and images in columns of tables: counted, decoded, and told by their rows."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from harm import kinds, seen
from PIL import Image
from tables import ROWS, TEXT, parquet, zeroed

from unstuck.checking.formats.columns import Contents
from unstuck.checking.notes import Wish

NAME = "part-0.parquet"


def spoiled(column: list[bytes], kind: pa.DataType) -> pa.Array:
    """Bytes that are called text, as C++ programs write them."""
    return pa.array(column, pa.large_binary() if kind == pa.large_string() else pa.binary()).view(kind)


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


@pytest.mark.scenario
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

    assert kinds(tmp_path, NAME, data, Wish(decode=True)) == []


def test_documents_of_the_table_are_what_was_written(tmp_path):
    texts = {one.column: one for one in seen(tmp_path, NAME, parquet()).texts}

    assert texts.keys() == {"text", "label"}
    assert (texts["text"].nulls, texts["text"].blanks) == (TEXT.count(None), TEXT.count(""))
