"""Members that are looked at together: with the same result as one by one, whatever they are."""

from __future__ import annotations

import io
import random
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image

from unstuck.checking.check import check
from unstuck.checking.formats.tar import headers, members
from unstuck.checking.formats.tar.samples import Samples
from unstuck.checking.notes import Notes, Wish

KEYS = ["a", "b", "dir/a", "dir.v1/a", "dir.v1/b", "", "dir/", "c", "d", "é"]
PARTS = ["jpg", "JPG", "json", "cls", "seg.png", ""]


def names(draw: random.Random) -> list[str]:
    """Mostly samples of the same parts, with a few that are not."""
    parts, found = draw.sample(PARTS[:4], draw.randint(1, 3)), []
    for number in range(draw.randint(1, 40)):
        key = f"{draw.choice(KEYS)}{number if draw.random() < 0.97 else draw.randint(0, 9)}"
        own = parts if draw.random() < 0.95 else draw.choices(PARTS, k=draw.randint(1, 4))
        found += [f"{key}.{part}" if draw.random() < 0.995 else key for part in own]
    return found


def seen(all_names: list[str], cuts: list[int] | None):
    notes = Notes("x.tar", 0, Wish())
    samples = Samples(notes)
    if cuts is None:
        keys = [samples.add(name, at) for at, name in enumerate(all_names)]
    else:
        keys, edges = [], [0, *cuts, len(all_names)]
        for start, end in pairwise(edges):
            some = all_names[start:end]
            if some:
                keys.append(samples.add_all(some, [name.partition(".") for name in some], list(range(start, end))))
    samples.end()
    return keys[-1], samples.count, samples.unnamed, samples.groups(), notes.file().faults, notes.file().counts


def test_samples_of_many_members_are_those_of_one_after_the_other():
    draw = random.Random(7)
    for _ in range(3_000):
        some = names(draw)
        cuts = sorted(draw.sample(range(len(some)), min(draw.randint(0, 4), len(some))))

        assert seen(some, cuts) == seen(some, None), (some, cuts)


def test_most_samples_are_counted_at_once(monkeypatch):
    one_by_one = []
    add = Samples.add
    monkeypatch.setattr(Samples, "add", lambda self, name, at: one_by_one.append(name) or add(self, name, at))

    seen([f"train/{number:05d}.{part}" for number in range(500) for part in ("jpg", "json")], [100, 501])

    assert len(one_by_one) < 12


def archive(path: Path, draw: random.Random) -> Path:
    """Of any kinds of members: empty, large, one that looks like an archive itself, and zeros here and there."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as nested:
        nested.addfile(tarfile.TarInfo("inner"))
    layout = draw.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
    with tarfile.open(path, "w", format=layout) as out:
        for number in range(draw.randint(5, 60)):
            for part in ("jpg", "txt"):
                data = bytearray(draw.randbytes(draw.choice([1, 200, 511, 512, 513, 3000, 70_000])))
                data = bytearray(data.replace(b"\0", b"x"))
                odd = draw.random()
                if odd < 0.02:
                    data[len(data) // 3 : len(data) // 3 + 600] = bytes(600)
                elif odd < 0.04:
                    data = bytearray(inner.getvalue())
                elif odd < 0.05:
                    data = bytearray()
                if part == "jpg" and data:
                    data[:3] = b"\xff\xd8\xff"
                long = "n" * 60 + "/" + "n" * 60 if draw.random() < 0.02 else ""
                info = tarfile.TarInfo(f"{long}{number:05d}.{part}")
                info.size = len(data)
                info.mtime = 1_700_000_000.5 if layout == tarfile.PAX_FORMAT else 7
                info.type = tarfile.DIRTYPE if draw.random() < 0.02 else tarfile.REGTYPE
                info.size = 0 if info.isdir() else info.size
                out.addfile(info, io.BytesIO(bytes(data)))
    return path


@pytest.mark.parametrize("number", range(40))
def test_an_archive_is_the_same_with_and_without(tmp_path, monkeypatch, number):
    draw = random.Random(number)
    path = archive(tmp_path / "x.tar", draw)
    if number % 3 == 0:
        data = bytearray(path.read_bytes())
        data[draw.randrange(len(data))] ^= 0x11
        path.write_bytes(data)
    together = facts(path)
    monkeypatch.setattr(headers, "FEW", 1 << 30)

    assert together == facts(path)


def facts(path: Path):
    found = check(str(path), Wish()).file
    return found.samples, found.members, found.groups, found.faults, found.counts


@pytest.mark.parametrize("compressed", [False, True])
def test_zeros_in_an_image_that_is_larger_than_a_piece_are_found_where_they_are(tmp_path, compressed):
    made, path = io.BytesIO(), tmp_path / "x.tar"
    Image.frombytes("RGB", (1500, 1200), random.Random(0).randbytes(5_400_000)).save(made, "JPEG", quality=98)
    data = made.getvalue()
    assert len(data) > 2_200_000
    for at in (1 << 20, (1 << 20) - 1500 - 256, 2 << 20):  # the second at the end of a piece
        harmed = bytearray(data)
        harmed[at : at + 512] = bytes(512)
        with tarfile.open(path, "w:gz" if compressed else "w") as out:
            for name in ("a.jpg", "b.jpg"):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                out.addfile(info, io.BytesIO(bytes(harmed if name == "b.jpg" else data)))

        (fault,) = check(str(path), Wish()).file.faults

        assert (fault.kind, fault.member) == ("zeros", "b.jpg")
        assert f"from its byte {at:,} on" in fault.what


def test_zeros_in_a_large_text_are_found(tmp_path):
    text = bytearray(b"word " * 200_000)
    text[700_001:700_600] = bytes(599)
    with tarfile.open(tmp_path / "x.tar", "w") as out:
        info = tarfile.TarInfo("a.txt")
        info.size = len(text)
        out.addfile(info, io.BytesIO(bytes(text)))

    (fault,) = check(str(tmp_path / "x.tar"), Wish()).file.faults

    assert (fault.kind, "from its byte 700,001 on" in fault.what) == ("zeros", True)


def test_archives_of_large_members_that_differ_are_not_alike(tmp_path):
    for name, seed in (("one", 1), ("two", 2), ("three", 1)):
        data = random.Random(seed).randbytes(members.LARGE * 3)
        with tarfile.open(tmp_path / f"{name}.tar", "w") as out:
            info = tarfile.TarInfo("a.npy")
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))

    one, two, three = (check(str(tmp_path / f"{name}.tar"), Wish()).file.alike for name in ("one", "two", "three"))
    assert one == three != two
