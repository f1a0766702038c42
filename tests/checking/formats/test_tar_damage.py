"""Thousands of damages to real archives: each that loses or alters a sample is reported, and no whole one is."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest
import shards

from unstuck.checking.check import check
from unstuck.checking.formats.tar.headers import BLOCK
from unstuck.checking.notes import Wish

pytestmark = pytest.mark.scenario

FLIPS = 400


@pytest.fixture(params=["plain", "webdataset", "gnu-tar", "long-names-gnu", "long-names-pax", "ustar"])
def archive(request, tmp_path) -> Path:
    path = tmp_path / "whole.tar"
    if request.param == "gnu-tar":
        return shards.by_gnu_tar(path, tmp_path / "scratch")
    if request.param.startswith("long-names"):
        layout = tarfile.GNU_FORMAT if request.param.endswith("gnu") else tarfile.PAX_FORMAT
        return shards.with_long_names(path, layout)
    layout = tarfile.USTAR_FORMAT if request.param == "ustar" else tarfile.PAX_FORMAT
    more = {"mtime": 1_700_000_000.25} if request.param == "webdataset" else {}
    return shards.write(path, shards.members(), layout=layout, **more)


def kinds(path: Path, expected: bytes = b"") -> list[str]:
    return [one.kind for one in check(str(path), Wish(digests=bool(expected)), expected=expected).file.faults]


def damaged(archive: Path, data: bytes) -> Path:
    path = archive.with_name("damaged.tar")
    path.write_bytes(data)
    return path


def headers(data: bytes) -> list[int]:
    """Offsets of all headers, extended ones too."""
    found, at = [], 0
    while data[at : at + BLOCK].strip(b"\0"):
        found.append(at)
        at += BLOCK + -(-int(data[at + 124 : at + 135].strip(b" \0") or b"0", 8) // BLOCK) * BLOCK
    return found


def test_a_whole_archive_has_no_fault(archive):
    found = check(str(archive), Wish())

    assert found.file.faults == []
    assert found.file.samples == len(shards.training_gets(archive))


def test_every_cut_that_costs_a_sample_is_reported(archive):
    data, whole = archive.read_bytes(), shards.training_gets(archive)
    places = sorted({*range(1, len(data), 193), *(at + more for at in headers(data) for more in (0, 1, 511, 512))})
    missed = []
    for place in places:
        path = damaged(archive, data[:place])
        if shards.training_gets(path) != whole and not kinds(path):
            missed.append(place)

    assert missed == []


def passes_over_cut_pax_headers():
    """Some releases of Python (3.11.2, 3.13.0) end in silence where others (3.10.13, 3.11.7, 3.12.1) raise."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("short", "long" * 40):
            archive.addfile(tarfile.TarInfo(name))
    cut = io.BytesIO(made.getvalue()[: 2 * BLOCK + 10])
    try:
        return len(list(tarfile.open(fileobj=cut, mode="r|"))) == 1
    except tarfile.ReadError:
        return False


def test_cuts_that_readers_pass_in_silence_are_told_apart_from_those_they_raise_about(archive):
    data, whole = archive.read_bytes(), shards.training_gets(archive)
    lenient = passes_over_cut_pax_headers()
    wrong = []
    for place in range(BLOCK, headers(data)[-1], 257):
        path = damaged(archive, data[:place])
        got = shards.training_gets(path)
        silent = not isinstance(got, str) and got != whole
        found = kinds(path)
        if lenient and silent and found == ["tar-cut-data"]:
            continue
        if silent != bool({"tar-no-end", "tar-cut-header"} & set(found)):
            wrong.append((place, got if isinstance(got, str) else len(got), found))

    assert wrong == []


def test_every_flipped_bit_of_a_header_is_reported(archive):
    data, whole = archive.read_bytes(), shards.training_gets(archive)
    draw = random.Random(1)
    missed = []
    for at in headers(data):
        for _ in range(12):
            place = at + draw.randrange(BLOCK)
            path = damaged(archive, _flipped(data, place, 1 << draw.randrange(8)))
            if shards.training_gets(path) != whole and not kinds(path):
                missed.append(place)

    assert missed == []


def test_every_zeroed_header_is_reported_with_what_stands_behind_it(archive):
    data = archive.read_bytes()
    samples = len(shards.training_gets(archive))
    for at in headers(data)[1:]:
        for blocks in (1, 3, 8):
            path = damaged(archive, data[:at] + bytes(BLOCK * blocks) + data[at + BLOCK * blocks :])
            found = check(str(path), Wish()).file
            got = shards.training_gets(path)
            if isinstance(got, str) or not data[at + BLOCK * blocks :].strip(b"\0"):
                assert found.faults or not isinstance(got, str), (at, blocks)
                continue  # with zeros to its end, nothing but a manifest can tell that there was more
            assert "tar-early-end" in [one.kind for one in found.faults], (at, blocks)
            lost = next(one.lost for one in found.faults if one.kind == "tar-early-end") or 0
            assert lost >= samples - len(got) - 1 - blocks, (at, blocks)


def test_with_a_manifest_every_flip_that_alters_a_sample_is_reported(archive):
    expected = check(str(archive), Wish(digests=True)).digests
    data, whole = archive.read_bytes(), shards.training_gets(archive)
    draw = random.Random(2)
    missed, altered = [], 0
    for _ in range(FLIPS):
        place = draw.randrange(len(data))
        path = damaged(archive, _flipped(data, place, draw.randrange(1, 256)))
        if shards.training_gets(path) != whole:
            altered += 1
            if not kinds(path, expected):
                missed.append(place)

    assert missed == []
    assert altered > FLIPS / 10


def test_a_whole_archive_agrees_with_its_manifest(archive):
    expected = check(str(archive), Wish(digests=True)).digests

    assert kinds(archive, expected) == []


def _flipped(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]
