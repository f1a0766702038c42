"""Arrow files and streams of pyarrow and of `datasets`: whole, cut, altered and zeroed."""

from __future__ import annotations

import io
import random

import datasets
import fsspec
import pyarrow as pa
import pytest
from harm import cuts, flips, holes, kinds, seen
from tables import GROUP, ROWS, TABLE, file, stream, verdict

from unstuck.checking.check import check
from unstuck.checking.formats.arrow import BATCH, Message, messages
from unstuck.checking.notes import Wish

NAME = "data-00000-of-00001.arrow"
MORE = TABLE.append_column("kind", pa.array(["a", "b", "a"] * (ROWS // 3)).dictionary_encode()).append_column(
    "view", pa.array([f"a text that is a view {row}" for row in range(ROWS)], pa.string_view())
)
FORMS = {
    "stream": lambda: stream(MORE),
    "stream-zstd": lambda: stream(MORE, compression="zstd"),
    "file": lambda: file(MORE),
    "file-lz4": lambda: file(MORE, compression="lz4"),
}


def read_all(data: bytes) -> pa.Table:
    opened = pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream
    return opened(io.BytesIO(data)).read_all()


def batches(data: bytes) -> list[Message]:
    start = 8 if data.startswith(b"ARROW1") else 0
    return [one for one in messages(pa.BufferReader(data), start, len(data)) if one.kind == BATCH]


def zeroed(data: bytes, start: int, size: int) -> bytes:
    return data[:start] + bytes(size) + data[start + size :]


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_one_has_no_fault_and_its_rows_are_counted(tmp_path, form):
    found = seen(tmp_path, NAME, FORMS[form]())

    assert (found.format, found.faults) == ("arrow", [])
    assert (found.samples, found.members, found.read) == (ROWS, 3, found.size)
    assert {one.column: one.documents for one in found.texts} == dict.fromkeys(("text", "label", "kind", "view"), ROWS)


@pytest.mark.scenario
@pytest.mark.parametrize("form", FORMS)
def test_whatever_pyarrow_fails_at_or_passes_over_is_reported(tmp_path, form):
    data = FORMS[form]()
    whole, missed, altered = read_all(data), [], 0
    draw, places = random.Random(5), [one.at for one in batches(data)]
    heads = [draw.choice(places) + draw.randrange(400) for _ in range(80)]
    damages = [
        *cuts(data, 20),
        *(data[:place] for place in places),
        *(bad for _, bad in flips(data, 120)),
        *(data[:at] + bytes([data[at] ^ draw.randrange(1, 256)]) + data[at + 1 :] for at in heads),
        *(bad for size in (8, 512) for _, bad in holes(data, 25, size)),
        *(zeroed(data, place, size) for place in places for size in (8, 64, 512)),
    ]

    for number, bad in enumerate(damages):
        found, comes = seen(tmp_path, NAME, bad), verdict(bad, read_all, whole)
        if comes in ("fails", "fewer") and not found.faults:
            missed.append(number)
        altered += comes == "differs" and not found.faults

    assert missed == [], f"and {altered} others alter values, which nothing in such a file can show"


def test_a_stream_without_its_end_mark_may_have_lost_rows_in_silence(tmp_path):
    """`datasets` loads it without a word, and so has fewer rows."""
    datasets.Dataset(TABLE).save_to_disk(tmp_path / "saved")
    (path,) = (tmp_path / "saved").glob("*.arrow")
    whole = path.read_bytes()
    healthy = check(str(path), Wish()).file
    path.write_bytes(stream()[: batches(stream())[2].at])

    found = check(str(path), Wish()).file

    assert len(datasets.load_from_disk(str(tmp_path / "saved"))) == found.samples == 2 * GROUP
    assert (healthy.faults, healthy.samples, len(whole)) == ([], ROWS, healthy.size)
    (fault,) = found.faults
    assert (fault.kind, fault.at, fault.row) == ("cut", found.size, 2 * GROUP)
    assert fault.what.startswith("no end mark after 2 batches")


def test_a_stream_that_is_cut_within_a_batch_says_what_it_costs(tmp_path):
    data = stream()
    last = batches(data)[2]

    (fault,) = seen(tmp_path, NAME, data[: last.end - 100]).faults

    assert (fault.kind, fault.at, fault.row, fault.lost) == ("cut", last.end - 100, 2 * GROUP, GROUP)


def test_zeros_between_two_batches_end_a_stream_in_silence(tmp_path):
    data = stream()
    bad = zeroed(data, batches(data)[1].at, 64)

    found = seen(tmp_path, NAME, bad)

    assert read_all(bad).num_rows == GROUP
    (fault,) = found.faults
    assert (fault.kind, fault.at, fault.row, fault.lost) == ("zeros", batches(data)[1].at, GROUP, GROUP)


def test_two_streams_in_one_file_are_read_as_the_first(tmp_path):
    (fault,) = seen(tmp_path, NAME, stream() + stream()).faults

    assert read_all(stream() + stream()).num_rows == ROWS
    assert (fault.kind, fault.at, fault.lost) == ("damaged", len(stream()) - 8, ROWS)


def test_zeros_behind_the_end_mark_are_no_data(tmp_path):
    assert kinds(tmp_path, NAME, stream() + bytes(5000)) == []


@pytest.mark.parametrize("form", [stream, file])
def test_a_damaged_batch_is_named_and_the_others_are_read(tmp_path, form):
    data = form(compression="zstd")
    bad = bytearray(data)
    places = batches(data)[:2]
    for one in places:
        bad[one.end - 60 : one.end - 20] = b"\xaa" * 40

    found = seen(tmp_path, NAME, bytes(bad))

    assert [(one.kind, one.at, one.until, one.row, one.lost) for one in found.faults] == [
        ("damaged", one.at, one.end, number * GROUP, GROUP) for number, one in enumerate(places)
    ]
    assert found.samples == GROUP


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_whose_description_is_damaged_does_not_hide_the_next(tmp_path, form):
    data = FORMS[form]()
    second = batches(data)[1]
    bad = data[: second.at + 8] + b"\xee" * 40 + data[second.at + 48 :]

    found = seen(tmp_path, NAME, bad)

    assert [(one.kind, one.at) for one in found.faults] == [("damaged", second.at)]
    assert found.samples == 2 * GROUP


def test_a_file_without_its_footer_says_how_many_rows_stand_there(tmp_path):
    data = file()

    (fault,) = seen(tmp_path, NAME, data[: batches(data)[2].at + 50]).faults

    assert (fault.kind, fault.lost) == ("cut", 2 * GROUP)


def test_batches_that_the_footer_does_not_name_are_reported(tmp_path):
    """The count of record batches is the first word of their list in the footer, whose entries tell where it stands."""
    data, places = file(), batches(file())
    entry = data.rindex(places[0].at.to_bytes(8, "little"))
    bad = data[: entry - 4] + (1).to_bytes(4, "little") + data[entry:]

    (fault,) = seen(tmp_path, NAME, bad).faults

    assert read_all(bad).num_rows == GROUP
    assert (fault.kind, fault.at, fault.lost) == ("damaged", places[1].at, 2 * GROUP)


@pytest.mark.parametrize("form", [stream, file])
def test_offsets_that_lead_outside_are_damage(tmp_path, form):
    """pyarrow takes them as they are; whoever looks at the text crashes."""
    data = form(pa.table({"text": ["one", "two", "three"]}))
    at = data.index((3).to_bytes(4, "little") + (6).to_bytes(4, "little") + (11).to_bytes(4, "little"))
    bad = data[: at + 8] + (1 << 30).to_bytes(4, "little") + data[at + 12 :]

    assert [one.kind for one in seen(tmp_path, NAME, bad).faults] == ["damaged"]


@pytest.mark.parametrize("form", [stream, file])
def test_text_that_is_not_utf_8_is_told_by_its_row(tmp_path, form):
    texts = pa.array([b"fine"] * 100 + [b"caf\xe9"] + [b"fine"] * 100).view(pa.string())

    found = seen(tmp_path, NAME, form(pa.table({"text": texts})))

    assert [(one.kind, one.row, one.member) for one in found.faults] == [("undecodable", 100, "text")]
    assert found.samples == 201


@pytest.mark.parametrize("form", [stream, file])
def test_one_without_rows_says_so(tmp_path, form):
    assert kinds(tmp_path, NAME, form(TABLE.slice(0, 0))) == ["no-rows"]


def test_a_batch_that_unfolds_to_more_memory_than_a_reader_may_have_is_hostile(tmp_path):
    """The announced length stands in front of each compressed column, so that it can be made to lie."""
    data = stream(pa.table({"blob": [bytes(100_000)]}), compression="zstd")
    length = (100_000).to_bytes(8, "little")
    bad = data.replace(length + b"\x28\xb5\x2f\xfd", (1 << 39).to_bytes(8, "little") + b"\x28\xb5\x2f\xfd")
    assert bad != data

    (fault,) = seen(tmp_path, NAME, bad).faults

    assert fault.kind in ("hostile", "damaged")
    assert fault.lost == 1


HEALTHY = {
    "legacy": lambda: stream(use_legacy_format=True),
    "dictionaries that change": lambda: _changing(emit_dictionary_deltas=False),
    "dictionaries that grow": lambda: _changing(emit_dictionary_deltas=True),
    "a slice": lambda: stream(MORE.slice(77, 100)),
    "a union": lambda: stream(
        pa.table({"one": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array("ab")])})
    ),
    "runs": lambda: stream(
        pa.table({"one": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), ["a", "b"])})
    ),
}


def _changing(**how: object) -> bytes:
    parts = [
        pa.record_batch({"kind": pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), entries)})
        for numbers, entries in (([0, 1], ["a", "b"]), ([2, 0], ["a", "b", "c"]))
    ]
    out = io.BytesIO()
    with pa.ipc.new_stream(out, parts[0].schema, options=pa.ipc.IpcWriteOptions(**how)) as writer:
        for one in parts:
            writer.write_batch(one)
    return out.getvalue()


@pytest.mark.parametrize("form", HEALTHY)
def test_no_form_of_it_is_a_fault(tmp_path, form):
    found = seen(tmp_path, NAME, HEALTHY[form]())

    assert (found.format, found.faults) == ("arrow", [])
    assert found.samples == read_all(HEALTHY[form]()).num_rows


@pytest.mark.parametrize("form", FORMS)
def test_one_elsewhere_is_read_as_one_that_is_here(tmp_path, form):
    data = FORMS[form]()
    bad = zeroed(data, batches(data)[1].at + 16, 32)
    address = f"memory://tables/{form}.arrow"
    fsspec.filesystem("memory").pipe(address, bad)

    there, here = check(address, Wish()).file, seen(tmp_path, NAME, bad)

    assert there.faults
    assert (there.faults, there.samples, there.texts) == (here.faults, here.samples, here.texts)


@pytest.mark.parametrize("form", [stream, file])
def test_a_glance_counts_rows_and_sees_a_cut_without_reading_it_all(tmp_path, form):
    table = pa.table({"text": [f"{row} " * 200 for row in range(ROWS)]})
    data, ends = form(table), Wish(whole=False)

    found = seen(tmp_path, NAME, data, ends)

    assert (found.samples, found.members, found.faults) == (ROWS, 3, [])
    assert found.read < len(data) / 10
    assert [kinds(tmp_path, NAME, data[:size], ends) for size in (-1, -9, -300, len(data) // 2)] == [["cut"]] * 4


def test_a_file_of_minus_ones_is_no_arrow_stream(tmp_path):
    assert seen(tmp_path, "tokens.bin", b"\xff" * 5000).format != "arrow"
