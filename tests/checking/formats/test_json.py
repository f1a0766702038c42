"""JSON lines: every line that Python's json refuses is reported with its number and offset, and no other is."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from harm import cuts, flips, holes, kinds, seen

from unstuck.checking.formats import json as json_format
from unstuck.checking.formats.json import JSON, JSONL
from unstuck.checking.formats.text import TEXT
from unstuck.checking.notes import Wish
from unstuck.evidence.data import Texts

DRAW = random.Random(0)


def record(number: int) -> dict:
    words = DRAW.choices(["stone", "Straße", "水", 'quote " and \\', "a\nb", "😀"], k=DRAW.randrange(1, 20))
    return {"id": number, "text": " ".join(words), "score": number / 7, "tags": ["a", None, True], "of": {"b": {}}}


RECORDS = [record(number) for number in range(120)]
LINES = b"".join(json.dumps(one, ensure_ascii=number % 2 == 0).encode() + b"\n" for number, one in enumerate(RECORDS))


def refused(data: bytes) -> dict[int, int]:
    """What a training would stumble over: numbers of lines, and where they begin."""
    found, at = {}, 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                if not isinstance(json.loads(line.decode()), dict):
                    found[number] = at
            except (ValueError, RecursionError):
                found[number] = at
        at += len(line) + 1
    return found


def assert_agrees(folder, data: bytes) -> None:
    bad = refused(data)
    file = seen(folder, "lines.jsonl", data)
    assert {one.row for one in file.faults} == set(bad)
    assert all(bad[one.row] <= one.at for one in file.faults)
    assert file.samples == sum(bool(line.strip()) for line in data.split(b"\n")) - len(bad)


def test_whole_lines_have_no_fault_and_are_counted(tmp_path):
    file = seen(tmp_path, "lines.jsonl", LINES)

    assert (file.format, file.faults, file.samples) == ("jsonl", [], len(RECORDS))
    assert file.columns == {"id": "number", "text": "string", "score": "number", "tags": "array", "of": "object"}
    assert file.texts == [Texts("text", documents=120, characters=sum(len(one["text"]) for one in RECORDS))]


@pytest.mark.parametrize(
    "data",
    [
        LINES[:-1],
        LINES.replace(b"\n", b"\r\n"),
        LINES.replace(b"\n", b"\n\n"),
        b"\n \n" + LINES + b"\n\n  \n",
        b"\xef\xbb\xbf" + LINES,
        LINES + b'{"score": NaN, "least": -Infinity}\n',
        LINES + b'{"text": "half a character: \\ud83d"}\n',
        LINES + b'{"id": 1, "id": 2, "large": 123456789012345678901234567890, "larger": 1e999}\n',
        LINES + b'{"text": 5}\n{"text": [1, {"a": NaN}]}\n{}\n{"text": null}\n',
        b'{"\\u0000 strange \\n \\ud83d key": "a", "class": "b", "": "c"}\n' * 3,
    ],
    ids=["no-end", "crlf", "blank-between", "blank-around", "bom", "nan", "surrogate", "numbers", "kinds", "keys"],
)
def test_what_python_reads_is_healthy(data, tmp_path):
    assert not refused(data.removeprefix(b"\xef\xbb\xbf"))

    file = seen(tmp_path, "lines.jsonl", data)

    assert (file.format, file.faults) == ("jsonl", [])
    assert file.samples == sum(bool(line.strip()) for line in data.splitlines())


def test_lines_that_are_no_objects_are_healthy_where_all_are_so(tmp_path):
    assert kinds(tmp_path, "pairs.jsonl", b'["a", 1]\n["b", 2]\n') == []


def test_every_cut_within_a_line_is_reported_as_one(tmp_path):
    end = LINES.rindex(b"\n", 0, -1) + 1
    for place in range(end + 1, len(LINES) - 1):
        file = seen(tmp_path, "lines.jsonl", LINES[:place])

        (fault,) = file.faults
        assert (fault.kind, fault.row, fault.at, fault.lost) == ("cut", len(RECORDS), place, 1)
        assert file.samples == len(RECORDS) - 1


def test_every_cut_is_judged_as_python_would(tmp_path):
    for short in cuts(LINES, 100):
        if b"\n" in short:
            assert_agrees(tmp_path, short)


@pytest.mark.scenario
def test_every_altered_byte_is_judged_as_python_would(tmp_path):
    for _, bad in flips(LINES, 300):
        assert_agrees(tmp_path, bad)


def test_several_bad_lines_are_all_found(tmp_path):
    data = LINES
    for at in random.Random(5).sample(range(500, len(LINES)), 40):
        data = data[:at] + b"\xff" + data[at + 1 :]

    assert_agrees(tmp_path, data)


def test_a_hole_is_found_with_its_place_and_its_end(tmp_path):
    for at, bad in holes(LINES[100:], 40, 512):
        data = LINES[:100] + bad

        faults = [one for one in seen(tmp_path, "lines.jsonl", data).faults if one.kind == "zeros"]

        assert [(one.at, one.until, one.lost) for one in faults] == [(at + 100, at + 612, 1)]
        assert faults[0].row == data[: at + 100].count(b"\n") + 1


def test_a_file_that_ends_in_zeros_has_a_hole_there(tmp_path):
    (fault,) = seen(tmp_path, "lines.jsonl", LINES + bytes(5000)).faults

    assert (fault.kind, fault.at, fault.until) == ("zeros", len(LINES), len(LINES) + 5000)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"id": 1}{"id": 2}', "trailing characters"),
        (b'{"id":\n1}', "is not valid JSON"),
        (b'{"id": "\x00"}', "is not valid JSON at its byte 8"),
        (b'{"id": "\xe6\xb0"}', "no UTF-8"),
        (b'"only text"', "is string, where the others are objects"),
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper"),
        (b"Traceback (most recent call last):", "invalid character"),
    ],
    ids=["two-in-one", "one-in-two", "nul", "half-a-character", "no-object", "nested", "message"],
)
def test_a_line_that_is_no_record_is_named(line, words, tmp_path):
    start = b'{"id": 0}\n' * 1000

    file = seen(tmp_path, "lines.jsonl", start + line + b"\n" + start)

    assert {one.kind for one in file.faults} == {"undecodable"}
    assert (file.faults[0].row, file.samples) == (1001, 2000)
    assert words in file.faults[0].what
    assert_agrees(tmp_path, start + line + b"\n" + start)


def test_texts_are_measured_as_they_are(tmp_path):
    values = ["", "  \n", "ab", None, "Straße", 5, "水"] * 300
    data = b"".join(json.dumps({"text": one, "mehr ä": "x"}).encode() + b"\n" for one in ["first", *values]) + b"{}\n"

    file = seen(tmp_path, "lines.jsonl", data)

    assert file.texts == [
        Texts("text", documents=1501, nulls=301, blanks=600, characters=5 + 300 * (3 + 2 + 6 + 1)),
        Texts("mehr ä", documents=2101, nulls=1, characters=2101),
    ]


def test_a_file_of_blank_lines_holds_nothing(tmp_path):
    assert kinds(tmp_path, "lines.jsonl", b"\n\n  \n") == ["no-rows"]


def test_a_line_that_is_too_long_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(json_format, "LONGEST_LINE", 1 << 20)
    long = b'{"text": "' + b"x" * (5 << 20) + b'"}\n'

    whole = seen(tmp_path, "lines.jsonl", LINES + long + LINES)
    (fault,) = seen(tmp_path, "lines.jsonl", LINES + long[:-2] + b"\n" + LINES).faults

    assert (whole.faults, whole.samples) == ([], 2 * len(RECORDS) + 1)
    assert (fault.kind, fault.row) == ("cut", len(RECORDS) + 1)


def test_a_hole_that_is_longer_than_any_line_is_a_hole(tmp_path, monkeypatch):
    monkeypatch.setattr(json_format, "LONGEST_LINE", 1 << 20)

    file = seen(tmp_path, "lines.jsonl", LINES + bytes(5 << 20) + LINES)

    assert [(one.kind, one.at, one.until) for one in file.faults] == [("zeros", len(LINES), len(LINES) + (5 << 20))]
    assert file.samples == 2 * len(RECORDS) - 1


def test_a_long_record_is_judged_without_making_objects_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(json_format, "LARGE_RECORD", 1 << 16)
    long = b'{"text": "' + b"x" * (1 << 18) + b'"}\n'

    assert kinds(tmp_path, "lines.jsonl", LINES + long + LINES) == []
    assert kinds(tmp_path, "lines.jsonl", LINES + long[:9000] + b"\n" + long + LINES) == ["undecodable"]


@pytest.mark.scenario
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_document_in_one_long_line_is_whole_or_cut(end, tmp_path, monkeypatch):
    monkeypatch.setattr(json_format, "LONGEST_LINE", 1 << 18)
    data = json.dumps({"images": [{"file": f'{number}.jpg"\\', "size": [1, 2]} for number in range(20_000)]}).encode()

    assert kinds(tmp_path, "annotations.json", data + end) == []
    for place in random.Random(6).sample(range(1 << 19, len(data)), 20):
        assert kinds(tmp_path, "annotations.json", data[:place] + end) == ["cut"]


@pytest.mark.parametrize("indent", [None, 2])
def test_one_document_is_no_json_lines(indent, tmp_path):
    data = json.dumps({"name": "index", "shards": [{"url": f"{at}.tar"} for at in range(30)]}, indent=indent).encode()

    file = seen(tmp_path, "index.json", data + b"\n")

    assert (file.format, file.faults) == ("json", [])


def test_a_broken_first_line_leaves_them_json_lines(tmp_path):
    short = b'{"id": 1, "text": "a"}\n' * 20

    file = seen(tmp_path, "lines.json", b'{"id": 1, "te' + short)

    assert (file.format, file.samples, [one.row for one in file.faults]) == ("jsonl", 19, [1])


@pytest.mark.scenario
def test_a_document_is_judged_at_every_cut(tmp_path):
    data = json.dumps(
        [{"file": f"{at}.jpg", "ok": True, "none": None, "s": "é\n"} for at in range(12)], indent=1
    ).encode()

    for place in range(8, len(data) - 1):
        assert kinds(tmp_path, "list.json", data[:place]) == ["cut"]
    assert kinds(tmp_path, "list.json", data.replace(b"true", b"tru3", 1)) == ["undecodable"]
    assert kinds(tmp_path, "list.json", data[:90] + bytes(300) + data[390:]) == ["zeros"]


@pytest.mark.scenario
def test_a_long_document_is_judged_by_its_brackets(tmp_path, monkeypatch):
    monkeypatch.setattr(json_format, "LONGEST_DOCUMENT", 1 << 20)
    data = json.dumps([{"file": f'{at}.jpg"[\\', "s": "}{"} for at in range(80_000)], indent=0).encode()

    assert kinds(tmp_path, "list.json", data) == []
    for place in random.Random(7).sample(range(2 << 20, len(data)), 10):
        assert kinds(tmp_path, "list.json", data[:place]) == ["cut"]


def test_damage_to_the_compression_is_told_once(tmp_path):
    packed = gzip.compress(LINES)

    assert kinds(tmp_path, "lines.jsonl.gz", packed[: len(packed) // 2]) == ["cut"]


def test_a_glance_sees_how_it_ends(tmp_path):
    many = LINES * 200
    glance = Wish(whole=False)

    assert kinds(tmp_path, "lines.jsonl", many, glance) == []
    assert kinds(tmp_path, "lines.jsonl", many[:-1], glance) == []
    assert kinds(tmp_path, "lines.jsonl", many[:-30], glance) == ["cut"]
    assert kinds(tmp_path, "lines.jsonl", many + b"{]\n", glance) == ["undecodable"]
    assert kinds(tmp_path, "lines.jsonl", many + bytes(4096), glance) == ["zeros"]
    assert seen(tmp_path, "lines.jsonl", many, glance).read < len(many)


def test_members_are_decoded_as_webdataset_would():
    assert JSON.decoded(b'{"a": NaN, "b": "\\ud83d"}') == ""
    assert JSON.decoded(memoryview(b'{"a": 1')) == "invalid JSON at its byte 7: Input data was truncated"
    assert JSON.decoded(b"") == "no bytes where JSON should be"
    assert TEXT.decoded("a caption, Straße".encode()) == ""
    assert TEXT.decoded(b"") == ""
    assert TEXT.decoded("Straße".encode("latin-1")) == "invalid UTF-8 at its byte 4: invalid continuation byte"
    assert TEXT.decoded(b"a caption\0\0\0") == "zero bytes in a text, from its byte 9"
    assert JSON.decoded(gzip.compress(b'{"a": 1}')) == ""
    assert JSON.decoded(gzip.compress(b'{"a": ')) != ""
    assert TEXT.decoded(gzip.compress(b"a caption")[:-3]).startswith("the gzip data is truncated")
    assert JSONL.decoded(LINES) == ""
    assert JSONL.decoded(LINES[:-9]).startswith("line 120, the last, is truncated")


def test_a_text_file_is_no_data_and_its_encoding_nobodys_business(tmp_path):
    file = seen(tmp_path, "README.txt", "Straße".encode("latin-1") * 10)

    assert (file.other, file.faults) == ("no data format that is known", [])
