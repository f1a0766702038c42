"""What is said of tar archives that are odd in one way, and that nothing is said of those that only look so."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
import shards
from PIL import Image

from unstuck.checking.check import check
from unstuck.checking.notes import Wish


def looked_at(path: Path, **wish: bool):
    return check(str(path), Wish(**wish)).file


def archive(path: Path, *content: tuple[str, bytes]) -> Path:
    return shards.write(path / "a.tar", iter(content))


def photo(size: int = 64) -> bytes:
    out = io.BytesIO()
    Image.frombytes("RGB", (size, size), os.urandom(3 * size * size)).save(out, "JPEG", quality=95)
    return out.getvalue()


def test_samples_are_counted_as_webdataset_forms_them(tmp_path):
    file = looked_at(shards.write(tmp_path / "a.tar", shards.members(5)))

    assert (file.format, file.samples, file.members) == ("tar", 5, 15)
    assert [(one.parts, one.samples, one.first) for one in file.groups] == [(["cls", "jpg", "json"], 5, "000000")]


def test_parts_of_a_sample_that_stand_apart_are_told_with_their_key_and_place(tmp_path):
    path = archive(tmp_path, ("0.jpg", b"x"), ("1.jpg", b"x"), ("0.cls", b"1"), ("1.cls", b"2"))

    first, second = looked_at(path).faults

    assert (first.kind, first.sample, first.at) == ("tar-apart", "0", 5 * 512)
    assert first.what == "0 has .cls here and .jpg further up: read as two samples"
    assert second.sample == "1"


def test_a_key_that_comes_twice_is_told(tmp_path):
    path = archive(tmp_path, ("0.jpg", b"x"), ("0.cls", b"1"), ("1.jpg", b"x"), ("0.jpg", b"y"), ("0.cls", b"2"))

    (fault,) = looked_at(path).faults

    assert (fault.kind, fault.sample) == ("tar-duplicate", "0")


def test_a_member_that_comes_twice_in_a_row_is_told(tmp_path):
    (fault,) = looked_at(archive(tmp_path, ("0.jpg", b"x"), ("0.JPG", b"y"))).faults

    assert (fault.kind, fault.what) == ("tar-duplicate", "0 has .jpg twice in a row")


def test_folders_files_without_an_ending_and_links_are_no_samples(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as file:
        folder = tarfile.TarInfo("train")
        folder.type = tarfile.DIRTYPE
        file.addfile(folder)
        shards.add(file, "train/README", b"hello")
        shards.add(file, "train/0.jpg", b"x")
        link = tarfile.TarInfo("train/1.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "0.jpg"
        file.addfile(link)

    found = looked_at(path)

    assert (found.samples, found.faults) == (1, [])


HOSTILE = {
    "an absolute path": ("/etc/passwd.txt", "/etc/passwd.txt would be unpacked outside its folder"),
    "a path upwards": ("../../x.txt", "../../x.txt would be unpacked outside its folder"),
    "control characters": ("a\x1b[31mb.txt", "the name a\\x1b[31mb.txt has control characters"),
}


@pytest.mark.parametrize(("name", "said"), HOSTILE.values(), ids=HOSTILE)
def test_names_that_mean_harm_are_told_and_printed_harmlessly(tmp_path, name, said):
    (fault,) = looked_at(archive(tmp_path, (name, b"x"))).faults

    assert (fault.kind, fault.what) == ("hostile", said)
    assert fault.member.isprintable()


def test_names_of_other_languages_and_dots_are_harmless(tmp_path):
    path = archive(tmp_path, ("bär/élan.txt", b"x"), ("数据.txt", b"x"), ("a..b.txt", b"x"), ("v1.0/..c.txt", b"x"))

    assert looked_at(path).faults == []


def test_a_link_that_leads_outside_is_told(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as file:
        link = tarfile.TarInfo("weights.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "../../root/.ssh/id_rsa"
        file.addfile(link)
        shards.add(file, "0.txt", b"x")

    (fault,) = looked_at(path).faults

    assert (fault.kind, fault.what) == (
        "hostile",
        "weights.bin is a link to outside its folder: ../../root/.ssh/id_rsa",
    )


def test_a_size_that_lies_costs_no_memory(tmp_path):
    info = tarfile.TarInfo("0.bin")
    info.size = 1 << 50
    path = tmp_path / "a.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))

    (fault,) = looked_at(path, decode=True).faults

    assert fault.kind == "tar-cut-data"
    assert "4,096 of 1,125,899,906,842,624 bytes are there" in fault.what


def test_zeros_within_an_image_are_told_without_decoding(tmp_path):
    image = photo(200)
    half = len(image) // 2
    path = archive(tmp_path, ("0.jpg", image[:half] + bytes(4096) + image[half + 4096 :]), ("1.jpg", image))

    (fault,) = looked_at(path).faults

    assert (fault.kind, fault.sample, fault.lost) == ("zeros", "0", 1)
    assert 512 + half - 8 <= fault.at <= 512 + half + 8


def test_zeros_within_text_are_told_however_few(tmp_path):
    (fault,) = looked_at(archive(tmp_path, ("0.json", b'{"a": \0\0\0\0}'))).faults

    assert (fault.kind, fault.member) == ("zeros", "0.json")


def test_zeros_within_an_array_are_data(tmp_path):
    assert looked_at(archive(tmp_path, ("0.npy", bytes(9000)), ("1.bin", bytes(9000)))).faults == []


def test_what_cannot_be_decoded_is_told_when_asked(tmp_path):
    image = photo()
    path = archive(tmp_path, ("0.jpg", image), ("1.jpg", image[:-400]), ("1.json", b'{"a": 1'), ("2.jpg", image))

    plain, decoded = looked_at(path), looked_at(path, decode=True)

    assert [one.kind for one in plain.faults] in ([], ["image"])
    assert [(one.kind, one.sample) for one in decoded.faults] == [("image", "1"), ("undecodable", "1")]
    assert decoded.decoded == 4


def test_an_image_without_a_byte_is_told_without_decoding(tmp_path):
    (fault,) = looked_at(archive(tmp_path, ("0.jpg", b""), ("0.txt", b""))).faults

    assert (fault.kind, fault.member) == ("image", "0.jpg")


def test_large_members_are_decoded_too(tmp_path):
    image = photo(1400)
    assert len(image) > 2 << 20
    path = archive(tmp_path, ("0.jpg", image), ("1.jpg", image[: len(image) // 4 * 3]))

    found = looked_at(path, decode=True)

    assert [one.sample for one in found.faults] == ["1"]
    assert found.decoded == 2


def test_text_in_another_encoding_is_no_hole(tmp_path):
    content = ("0.txt", "a caption".encode("utf-16")), ("1.txt", "a caption".encode("utf-32"))

    assert looked_at(archive(tmp_path, *content)).faults == []


def test_files_of_anything_that_are_called_alike_by_chance_do_not_stand_apart(tmp_path):
    names = [f"doc/page{number}.html" for number in range(40)] + ["src/x.c", "doc/page3.css", "doc/page7.css"]

    assert looked_at(archive(tmp_path, *((name, b"x") for name in names))).faults == []
