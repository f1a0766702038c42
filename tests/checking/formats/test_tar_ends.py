"""Where tar archives end, and what stands where none should: zeros, other archives, half of a compressed one."""

from __future__ import annotations

import gzip
import os
import tarfile

import pytest
import shards
from test_tar import archive, looked_at


def test_an_archive_of_nothing_is_told(tmp_path):
    (fault,) = looked_at(archive(tmp_path)).faults

    assert (fault.kind, fault.what) == ("no-rows", "the archive has no members")


def test_a_file_that_was_reserved_and_never_written_is_told(tmp_path):
    path = shards.write(tmp_path / "a.tar", shards.members(3))
    with open(path, "ab") as file:
        file.truncate(5 << 20)

    (fault,) = looked_at(path).faults

    assert fault.kind == "zeros"
    assert "are zeros, more than any writer pads with" in fault.what


def test_two_archives_behind_each_other_are_one_to_readers(tmp_path):
    one, two = (shards.write(tmp_path / f"{n}.tar", shards.members(3, n)) for n in (1, 2))
    one.write_bytes(one.read_bytes() + two.read_bytes())

    (fault,) = looked_at(one).faults

    assert (fault.kind, fault.lost) == ("tar-early-end", 3)
    assert "3 samples follow" in fault.what


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_compressed_archive_that_is_cut_is_one_fault(tmp_path, share):
    data = gzip.compress(shards.write(tmp_path / "a.tar", shards.members(9)).read_bytes())
    path = tmp_path / "a.tar.gz"
    path.write_bytes(data[: int(len(data) * share)])

    file = looked_at(path)

    assert (file.format, file.compression) == ("tar", "gzip")
    assert [one.kind for one in file.faults] == ["cut"]


def test_a_compressed_archive_that_is_whole_has_no_fault(tmp_path):
    data = gzip.compress(shards.write(tmp_path / "a.tar", shards.members(9)).read_bytes())
    path = tmp_path / "named-like-nothing"
    path.write_bytes(data)

    file = looked_at(path)

    assert (file.format, file.compression, file.samples, file.faults) == ("tar", "gzip", 9, [])


def test_the_ends_alone_tell_that_it_was_cut(tmp_path):
    path = shards.write(tmp_path / "a.tar", shards.members(9))
    whole = looked_at(path, whole=False)
    os.truncate(path, 512 * 7)

    assert whole.faults == []
    assert [one.kind for one in looked_at(path, whole=False).faults] == ["tar-no-end"]


def test_shards_that_share_keys_sizes_and_times_are_no_copies(tmp_path):
    one, two = (
        looked_at(shards.write(tmp_path / f"{n}.tar", iter([("0.bin", os.urandom(999)), ("1.bin", os.urandom(999))])))
        for n in (1, 2)
    )

    assert one.alike != two.alike


def test_a_thousand_faults_of_a_kind_are_counted_and_some_are_kept(tmp_path):
    names = [f"{number % 1000}.{'ab'[number // 1000]}" for number in range(2000)]

    file = looked_at(shards.write(tmp_path / "a.tar", ((name, b"x") for name in names)))

    assert file.counts == {"tar-apart": 1000}
    assert len(file.faults) == 50


def test_zeros_behind_an_extended_header_are_no_end(tmp_path):
    path = shards.write(tmp_path / "a.tar", shards.members(4), mtime=1.5)
    data = path.read_bytes()
    place = data.index(b"000002.cls") // 512 * 512 - 512  # what the extended header says of it
    path.write_bytes(data[:place] + bytes(len(data) - place))

    kinds = {one.kind for one in looked_at(path).faults}

    assert shards.training_gets(path) == "ReadError"
    assert kinds == {"damaged"}


def test_what_stands_behind_a_whole_archive_costs_no_sample(tmp_path):
    path = shards.write(tmp_path / "a.tar", shards.members(4))
    with open(path, "ab") as file:
        file.write(b"leftovers" * 500)

    (fault,) = looked_at(path).faults

    assert (fault.kind, fault.lost) == ("tar-early-end", None)


def test_a_damaged_header_within_a_sample_costs_the_samples_behind_it(tmp_path):
    path = shards.write(tmp_path / "a.tar", shards.members(10))
    data = bytearray(path.read_bytes())
    data[data.index(b"000004.json")] ^= 1
    path.write_bytes(data)

    file = looked_at(path)

    assert (file.samples, file.faults[0].kind, file.faults[0].lost) == (5, "tar-bad-header", 5)


def test_a_size_beyond_all_sense_is_a_cut(tmp_path):
    info = tarfile.TarInfo("0.bin")
    info.size = 1 << 62
    path = tmp_path / "a.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))

    assert [one.kind for one in looked_at(path).faults] == ["tar-cut-data"]
