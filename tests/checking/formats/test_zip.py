"""Zip archives, npz among them: every byte of a member is checked, and no healthy archive has a fault."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import zipfile

import numpy as np
import pytest
from harm import cuts, flips, garbled, kinds, seen

from unstuck.checking.formats import zip as zip_format
from unstuck.checking.formats.zip import NPZ
from unstuck.checking.notes import Wish

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "pixels": RANDOM.integers(0, 255, (12, 17, 3), dtype=np.uint8),
    "features": RANDOM.normal(size=(40, 9)).astype(np.float32),
    "mask": np.zeros((50, 50), dtype=bool),
    "scalar": np.float64(3.5),
    "none": np.zeros((0, 7), dtype=np.int64),
}


def saved(array: object) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def zipped(save=np.savez) -> bytes:
    out = io.BytesIO()
    save(out, **ARRAYS)
    return out.getvalue()


def by_zip(tmp_path, **arrays: np.ndarray) -> bytes:
    if not shutil.which("zip"):
        pytest.skip("zip is not installed")
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    subprocess.run(["zip", "-q", "a.zip", *(f"{name}.npy" for name in arrays)], cwd=tmp_path, check=True)
    return (tmp_path / "a.zip").read_bytes()


def streamed() -> bytes:
    """As it is written into a pipe: sizes stand behind the data."""

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, piece):
            self.data += bytes(piece)
            return len(piece)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in ARRAYS.items():
            archive.writestr(f"{name}.npy", saved(array))
    return pipe.data


def deflated() -> bytes:
    return zipped(np.savez_compressed)


@pytest.mark.parametrize("make", [zipped, deflated, streamed])
def test_a_whole_npz_has_no_fault(make, tmp_path):
    file = seen(tmp_path, "a.npz", make())

    assert (file.format, file.faults, file.members) == ("npz", [], len(ARRAYS))
    assert NPZ.decoded(memoryview(make())) == ""
    assert seen(tmp_path, "a.npz", make(), Wish(whole=False)).members == len(ARRAYS)


def test_a_whole_npz_of_the_zip_command_has_no_fault(tmp_path):
    assert kinds(tmp_path, "b.npz", by_zip(tmp_path, a=ARRAYS["features"], b=ARRAYS["mask"])) == []


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_cut_of_an_npz_is_reported(save, tmp_path):
    data = zipped(save)
    for short in cuts(data, 60):
        if short.startswith(b"PK\3\4"):
            assert kinds(tmp_path, "a.npz", short) == ["cut"]
            assert kinds(tmp_path, "a.npz", short, Wish(whole=False)) == ["cut"]
            assert NPZ.decoded(short) != ""


@pytest.mark.scenario
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_no_altered_byte_of_an_npz_alters_an_array_unnoticed(save, tmp_path):
    data = zipped(save)
    for at, bad in flips(data, 300):
        if kinds(tmp_path, "a.npz", bad) == []:
            assert unaltered(bad), f"byte {at} of {len(data)}"


def unaltered(data: bytes) -> bool:
    try:
        with np.load(io.BytesIO(data)) as found:
            return found.files == list(ARRAYS) and all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
    except Exception:  # noqa: BLE001
        return False


def test_a_bad_array_is_named_and_the_others_are_read(tmp_path):
    data = zipped()
    at = data.index(ARRAYS["features"].tobytes()) + 100

    (fault,) = seen(tmp_path, "a.npz", data[:at] + b"\xff\xff" + data[at + 2 :]).faults

    assert (fault.kind, fault.member, fault.lost) == ("damaged", "features.npy", 1)
    assert fault.at <= at < fault.until
    assert "do not match its checksum" in fault.what


def test_an_array_that_is_shorter_than_its_header_says_is_reported(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", saved(ARRAYS["features"])[:-8])

    (fault,) = seen(tmp_path, "a.npz", out.getvalue()).faults

    assert fault.kind == "damaged"
    assert "float32 (40, 9) has 1,440 bytes; 1,432 are there" in fault.what


def archive_of(*members: tuple[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.npy", "a/../../b.npy", "tab\there.npy"])
def test_a_name_that_leads_outside_is_hostile(name, tmp_path):
    data = archive_of(("first.npy", saved(ARRAYS["mask"])), (name, saved(ARRAYS["mask"])))

    (fault,) = seen(tmp_path, "a.npz", data).faults

    assert fault.kind == "hostile"
    assert fault.what.isprintable()


def test_a_bomb_in_an_npz_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(zip_format, "ROOM", 1 << 20)
    zeros = saved(np.zeros(8 << 20, dtype=np.uint8))

    (fault,) = seen(tmp_path, "a.npz", archive_of(("a.npy", zeros), how=zipfile.ZIP_DEFLATED)).faults

    assert fault.kind == "hostile"
    assert "a bomb" in fault.what


def test_a_size_that_lies_is_not_believed(tmp_path):
    # Given a member that unpacks to more than the directory says
    data = bytearray(archive_of(("a.npy", saved(np.zeros(100_000, dtype=np.uint8))), how=zipfile.ZIP_DEFLATED))
    place = data.rindex(b"PK\1\2")
    data[place + 24 : place + 28] = (5000).to_bytes(4, "little")

    # When and then
    (fault,) = seen(tmp_path, "a.npz", bytes(data)).faults
    assert fault.kind == "damaged"
    assert "the directory gives it 5,000 bytes" in fault.what


def test_members_that_share_bytes_are_hostile(tmp_path):
    # Given an archive whose directory names the same bytes again and again
    data = archive_of(("a.npy", saved(ARRAYS["pixels"])))
    place, end = data.rindex(b"PK\1\2"), data.rindex(b"PK\5\6")
    entry = data[place:end]
    for count in (2, 500):
        record = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entry) * count, place, 0)

        # When and then
        assert kinds(tmp_path, "a.npz", data[:place] + entry * count + record) == ["hostile"]


def test_large_archives_have_fields_of_64_bits(tmp_path):
    # Given an archive that says everything in its 64-bit fields
    data = archive_of(("a.npy", saved(ARRAYS["features"])), ("b.npy", saved(ARRAYS["mask"])))
    start, end = data.index(b"PK\1\2"), data.rindex(b"PK\5\6")
    entries, at = b"", start
    while at < end:
        fields = list(zip_format.ENTRY.unpack_from(data, at))
        name = data[at + 46 : at + 46 + fields[10]]
        extra = struct.pack("<2H3Q", 1, 24, fields[9], fields[8], fields[16])
        fields[8] = fields[9] = fields[16] = 0xFFFFFFFF
        fields[11] = len(extra)
        entries += zip_format.ENTRY.pack(*fields) + name + extra
        at += 46 + len(name)
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, len(entries), start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + len(entries), 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    large = data[:start] + entries + wide + locator + last

    # When and then
    assert list(np.load(io.BytesIO(large))) == ["a", "b"]
    assert kinds(tmp_path, "a.npz", large) == []
    assert kinds(tmp_path, "a.npz", large[:200] + b"\xff\xfe" + large[202:]) == ["damaged"]


def test_any_zip_archive_is_read_and_none_called_an_npz(tmp_path):
    members = (("readme.md", b"text " * 100), ("pictures/", b""), ("a.bin", bytes(5000)))
    data = archive_of(*members, how=zipfile.ZIP_DEFLATED)

    file = seen(tmp_path, "all.zip", data)

    assert (file.format, file.faults, file.members) == ("zip", [], 3)
    assert kinds(tmp_path, "all.zip", data[:-9]) == ["cut"]
    assert kinds(tmp_path, "all.zip", data + b"behind") == ["damaged"]
    assert kinds(tmp_path, "all.zip", archive_of()) == ["no-rows"]
    assert kinds(tmp_path, "all.zip", archive_of(("a.txt", b"abc"), how=zipfile.ZIP_LZMA)) == []


def test_members_of_a_zip_archive_are_decoded_if_that_is_wanted(tmp_path):
    data = archive_of(
        ("a.json", b'{"a": 1}'),
        ("b.json", b'{"a": '),
        ("c.npy", saved(ARRAYS["mask"])[:-5]),
        ("LICENCE.txt", "Straße".encode("latin-1")),
    )

    file = seen(tmp_path, "all.zip", data, Wish(decode=True))

    assert [(one.kind, one.member) for one in file.faults] == [("undecodable", "b.json"), ("undecodable", "c.npy")]
    assert file.decoded == 3
    assert kinds(tmp_path, "all.zip", data) == []


def test_garbled_archives_are_reported_and_make_nothing_raise(tmp_path):
    for bad in garbled(zipped(), 100):
        assert kinds(tmp_path, "a.npz", bad) != [] or unaltered(bad)
