"""Arrays as numpy saves them: what it refuses to read is reported, and no whole file is."""

from __future__ import annotations

import io
import warnings
import zlib

import numpy as np
import pytest
from harm import cuts, flips, garbled, kinds, seen

from unstuck.checking.formats.arrays import NPY
from unstuck.checking.notes import Wish

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "pixels": RANDOM.integers(0, 255, (12, 17, 3), dtype=np.uint8),
    "features": RANDOM.normal(size=(40, 9)).astype(np.float32),
    "mask": np.zeros((50, 50), dtype=bool),
    "scalar": np.float64(3.5),
    "none": np.zeros((0, 7), dtype=np.int64),
}


def saved(array: object, **how: object) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **how)
    return out.getvalue()


def old(array: np.ndarray) -> bytes:
    """As Python 2 wrote it."""
    shape = ", ".join(f"{side}L" for side in array.shape)
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}".encode()
    head = head.ljust(-(len(head) + 11) % 16 + len(head)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + array.tobytes()


FIELDS = np.zeros(5, dtype=[("größe", "<f4"), ("水", "<i8", (2,)), ("name", "U4")])
HEALTHY = {
    **{name: saved(array) for name, array in ARRAYS.items()},
    "fortran": saved(np.asfortranarray(ARRAYS["features"])),
    "big-endian": saved(ARRAYS["features"].astype(">f8")),
    "dates": saved(np.array(["2024-01-01", "NaT"], dtype="datetime64[D]")),
    "objects": saved(np.array([{"a": 1}, None], dtype=object), allow_pickle=True),
    "many-fields": saved(np.zeros(3, dtype=[(f"field_{at}", "<f4") for at in range(500)])),
    "python-2": old(ARRAYS["features"]),
    "several": saved(ARRAYS["features"]) + saved(ARRAYS["mask"]) + saved(ARRAYS["scalar"]),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    HEALTHY["unicode-fields"] = saved(FIELDS)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_whole_array_has_no_fault(name, tmp_path):
    file = seen(tmp_path, "a.npy", HEALTHY[name])

    assert (file.format, file.faults) == ("npy", [])
    assert file.members == (3 if name == "several" else 1)
    assert NPY.decoded(memoryview(HEALTHY[name])) == ""


@pytest.mark.scenario
@pytest.mark.parametrize("name", ["features", "scalar", "many-fields", "python-2", "unicode-fields"])
def test_every_cut_of_an_array_is_reported(name, tmp_path):
    data = HEALTHY[name]
    for short in cuts(data, min(40, len(data) - 80)):
        assert kinds(tmp_path, "a.npy", short) == ["cut" if short.startswith(b"\x93NUMPY") else "damaged"]
        assert kinds(tmp_path, "a.npy", short, Wish(whole=False)) != []
        assert NPY.decoded(short) != ""


@pytest.mark.scenario
def test_an_altered_header_is_judged_as_numpy_does(tmp_path):
    data = HEALTHY["features"]
    for at, bad in flips(data[:128], 400):
        faults = kinds(tmp_path, "a.npy", bad + data[128:])
        assert (faults != []) == refused(bad + data[128:]), f"byte {at}: {bad!r}"


def refused(data: bytes) -> bool:
    """By numpy, or with bytes left that it never looks at."""
    file = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.load(file, allow_pickle=False)
    except Exception:  # noqa: BLE001
        return True
    return file.tell() != len(data)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (HEALTHY["features"] + b"more", "damaged"),
        (bytes(400), "zeros"),
        (b"x" * 400, "damaged"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(500), "hostile"),
        (HEALTHY["features"].replace(b"(40, 9)", b"(-4, 9)"), "damaged"),
        (HEALTHY["features"].replace(b"(40, 9), }", b"(" + b"9" * 9 + b")"), "damaged"),
        (HEALTHY["features"].replace(b"(40, 9), }" + b" " * 20, b"(" + b"9" * 20 + b", 9), }  "), "cut"),
    ],
    ids=["behind", "zeros", "else", "header", "negative", "no-tuple", "size-lies"],
)
def test_an_array_that_contradicts_itself_is_reported(data, kind, tmp_path):
    assert kinds(tmp_path, "a.npy", data) == [kind]


def test_an_array_may_be_compressed_as_a_whole(tmp_path):
    packed = zlib.compress(HEALTHY["features"], wbits=31)

    assert kinds(tmp_path, "a.npy.gz", packed) == []
    assert kinds(tmp_path, "a.npy.gz", packed[: len(packed) // 2]) == ["cut"]
    assert kinds(tmp_path, "a.npy.gz", zlib.compress(HEALTHY["features"][:-3], wbits=31)) == ["cut"]


def test_garbled_headers_are_reported_and_make_nothing_raise(tmp_path):
    data = HEALTHY["features"]
    for bad in garbled(data[:128], 200):
        assert kinds(tmp_path, "a.npy", bad + data[128:]) != []
