"""Tensors as safetensors saves them: what its reader refuses is reported, and no whole file is."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
from harm import cuts, flips, garbled, kinds, seen
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from unstuck.checking.formats.arrays import SAFETENSORS
from unstuck.checking.notes import Wish

RANDOM = np.random.default_rng(0)
TENSORS = {
    "weight": RANDOM.normal(size=(40, 9)).astype(np.float32),
    "pixels": RANDOM.integers(0, 255, (12, 17, 3), dtype=np.uint8),
    "none": np.zeros((0, 7), dtype=np.int64),
    "one": np.ones((), dtype=np.float32),
}
SAVED = save_tensors(TENSORS, metadata={"format": "pt", "by": "水"})


def test_whole_tensors_have_no_fault(tmp_path):
    file = seen(tmp_path, "a.safetensors", SAVED)

    assert (file.format, file.faults, file.members) == ("safetensors", [], len(TENSORS))
    assert kinds(tmp_path, "a.safetensors", SAVED, Wish(whole=False)) == []
    assert SAFETENSORS.decoded(memoryview(SAVED)) == ""
    assert kinds(tmp_path, "b.safetensors", save_tensors({})) == []


def test_every_cut_of_tensors_is_reported(tmp_path):
    for short in cuts(SAVED, 60):
        assert kinds(tmp_path, "a.safetensors", short) == ["cut"]
        assert kinds(tmp_path, "a.safetensors", short, Wish(whole=False)) == ["cut"]
        assert SAFETENSORS.decoded(short) != ""


def test_an_altered_header_of_tensors_is_judged_as_their_reader_does(tmp_path):
    end = 8 + int.from_bytes(SAVED[:8], "little")
    for at, bad in flips(SAVED[:end], 500):
        if not refused_tensors(bad + SAVED[end:]):
            continue
        file = seen(tmp_path, "a.safetensors", bad + SAVED[end:])
        assert file.faults, f"byte {at}: {bad[max(at - 9, 0) : at + 9]!r}"


def refused_tensors(data: bytes) -> bool:
    try:
        load_tensors(data)
    except (SafetensorError, KeyError):
        return True
    return False


def with_header(header: object, data: bytes = bytes(16)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(start: int, end: int, shape: list[int], dtype: str = "U8") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (with_header({"a": tensor(0, 8, [8]), "b": tensor(9, 16, [7])}), "damaged", "b at bytes 9 to 16; 8 is where"),
        (with_header({"a": tensor(0, 9, [9]), "b": tensor(8, 16, [8])}), "damaged", "b at bytes 8 to 16; 9 is where"),
        (with_header({"a": tensor(0, 16, [5], "F32")}), "damaged", "F32 [5], 20 bytes, and has 16"),
        (with_header({"a": tensor(0, 16, [-4, -4])}), "damaged", "a is U8 [-4, -4]"),
        (with_header({"a": tensor(0, 12, [12])}), "damaged", "4 bytes follow its tensors"),
        (with_header({"a": tensor(0, 1 << 60, [1 << 60])}), "cut", "16 of them are there"),
        (with_header(b'{"a": 1}'), "damaged", "its header cannot be read"),
        (bytes(64), "zeros", "the length of its header is 0"),
        (b"\xff\xff\xff\x7f\0\0\0\0{" + bytes(64), "hostile", "2,147,483,647 bytes"),
    ],
    ids=["gap", "overlap", "size", "negative", "behind", "size-lies", "no-tensor", "zeros", "header"],
)  # fmt: skip
def test_tensors_that_contradict_themselves_are_reported(data, kind, words, tmp_path):
    (fault,) = seen(tmp_path, "a.safetensors", data).faults

    assert fault.kind == kind
    assert words in fault.what


def test_a_type_that_is_newer_than_we_are_is_judged_by_the_bits_in_its_name(tmp_path):
    assert kinds(tmp_path, "a.safetensors", with_header({"a": tensor(0, 16, [64], "F2_E1M0")})) == []
    assert kinds(tmp_path, "a.safetensors", with_header({"a": tensor(0, 16, [63], "F2_E1M0")})) == ["damaged"]


def test_tensors_may_be_compressed_as_a_whole(tmp_path):
    packed = zlib.compress(SAVED, wbits=31)

    assert kinds(tmp_path, "a.safetensors.gz", packed) == []
    assert kinds(tmp_path, "a.safetensors.gz", packed[: len(packed) // 2]) == ["cut"]
    assert kinds(tmp_path, "a.safetensors.gz", zlib.compress(SAVED[:-3], wbits=31)) == ["cut"]


def test_garbled_tensors_are_reported_and_make_nothing_raise(tmp_path):
    for bad in garbled(SAVED, 200):
        assert kinds(tmp_path, "a.safetensors", bad) != [] or not refused_tensors(bad)
