"""The manifest that --write-manifest writes: it comes back as it was written, and shows every change of the data."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import shards

from unstuck.checking.check import Read, check
from unstuck.checking.manifests import ManifestWriter, is_manifest, matched, members, read
from unstuck.checking.notes import Wish
from unstuck.errors import UserError
from unstuck.evidence.data import DataFile, Listed

WISH = Wish(digests=True, algorithm="crc32")


def seen(path: Path | str, wish: Wish = WISH, expected: bytes = b"") -> Read:
    return check(str(path), wish, expected=expected)


def write(path: str, reads: Iterable[Read], *, replace: bool = False) -> None:
    with ManifestWriter(path, replace=replace) as manifest:
        for read in reads:
            manifest.add(read)


@pytest.fixture
def data(tmp_path) -> Path:
    (tmp_path / "data").mkdir()
    for number in range(3):
        shards.write(tmp_path / "data" / f"s-{number}.tar", shards.members(seed=number))
    return tmp_path / "data"


def files_of(data: Path) -> list[str]:
    return sorted(map(str, data.iterdir()))


def test_what_was_written_is_read_with_paths_that_move_along(data, tmp_path):
    write(str(tmp_path / "m.jsonl"), map(seen, reversed(files_of(data))))
    (tmp_path / "elsewhere").mkdir()
    data.rename(tmp_path / "elsewhere" / "data")
    (tmp_path / "m.jsonl").rename(tmp_path / "elsewhere" / "m.jsonl")

    found = read(str(tmp_path / "elsewhere" / "m.jsonl"))

    moved = files_of(tmp_path / "elsewhere" / "data")
    assert [one.path for one in found.files] == moved
    assert found.samples == 3 * shards.SAMPLES
    assert found.files[0] == Listed(moved[0], os.path.getsize(moved[0]), shards.SAMPLES, seen(moved[0]).digest)
    assert is_manifest("m.jsonl", (tmp_path / "elsewhere" / "m.jsonl").read_bytes()[:4096])


def test_data_that_did_not_change_agrees_with_its_manifest(data, tmp_path):
    write(str(tmp_path / "m"), map(seen, files_of(data)))
    manifest = read(str(tmp_path / "m"))

    expected = members(manifest, matched(manifest, files_of(data)))

    assert list(expected) == files_of(data)
    assert [seen(one, expected=expected[one]).file.faults for one in expected] == [[], [], []]


def test_a_member_that_was_altered_is_named(data, tmp_path):
    write(str(tmp_path / "m"), map(seen, files_of(data)))
    manifest, path = read(str(tmp_path / "m")), Path(files_of(data)[1])
    content = path.read_bytes()
    at = content.index(b"picture 2")
    path.write_bytes(content[:at] + b"Picture" + content[at + 7 :])

    expected = members(manifest, matched(manifest, files_of(data)))
    faults = seen(path, expected=expected[str(path)]).file.faults

    assert [(one.kind, one.sample) for one in faults] == [("manifest", "000002")]


def test_names_with_anything_in_them_come_back(data, tmp_path):
    for name in (
        "tab\there.tar",
        "new\nline.tar",
        "ümläut 🙂.tar",
        "{0..9}.tar",
        "no ending",
        os.fsdecode(b"\xff.tar"),
    ):
        shards.write(data / name, shards.members(1))

    write(str(tmp_path / "m"), map(seen, files_of(data)))

    assert sorted(one.path for one in read(str(tmp_path / "m")).files) == files_of(data)
    assert b"\n\n" not in (tmp_path / "m").read_bytes()


def test_a_file_that_was_not_read_whole_has_a_size_and_nothing_that_is_not_known(data, tmp_path):
    glance = Wish(digests=True, algorithm="crc32", whole=False)
    unread = Read(DataFile(str(data / "x.parquet"), "parquet", unread="needs pyarrow"))

    write(str(tmp_path / "m"), [seen(files_of(data)[0], glance), seen(files_of(data)[1]), unread])

    found = read(str(tmp_path / "m"))
    assert [(one.samples, bool(one.digest)) for one in found.files] == [(None, False), (shards.SAMPLES, True)]
    assert found.samples is None


def test_what_is_no_manifest_of_ours_is_not_written_over(data, tmp_path):
    shard, before = Path(files_of(data)[0]), Path(files_of(data)[0]).read_bytes()

    with pytest.raises(UserError, match="is there already and is no manifest of unstuck"):
        ManifestWriter(str(shard))

    assert shard.read_bytes() == before
    write(str(tmp_path / "m"), map(seen, files_of(data)))
    write(str(tmp_path / "m"), [])
    assert read_head(tmp_path / "m")["files"] == 0


def read_head(path: Path) -> dict[str, object]:
    return json.loads(path.read_text().splitlines()[0])


def test_an_interrupted_check_leaves_the_old_manifest_and_nothing_else(data, tmp_path):
    target = tmp_path / "here" / "m"
    target.parent.mkdir()
    write(str(target), map(seen, files_of(data)))
    before = target.read_bytes()

    def interrupted() -> Iterator[Read]:
        yield seen(files_of(data)[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(str(target), interrupted())

    assert target.read_bytes() == before
    assert os.listdir(target.parent) == ["m"]


def test_a_manifest_that_is_discarded_is_not_written(data, tmp_path):
    with ManifestWriter(str(tmp_path / "m")) as manifest:
        manifest.add(seen(files_of(data)[0]))
        manifest.discard()

    assert sorted(os.listdir(tmp_path)) == ["data"]


def test_a_place_that_cannot_be_written_is_told_before_anything_is_read(tmp_path):
    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        ManifestWriter(str(tmp_path / "none" / "m"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.rpartition("\n{")[0] + "\n", "is cut off: it has 2 of 3 files"),
        (lambda text: text[:-100], "line 4 of the manifest .* is damaged"),
        (lambda text: text.replace('"version": 1', '"version": 9'), "is a manifest of version 9"),
    ],
)
def test_a_damaged_manifest_is_told_from_damaged_data(data, tmp_path, damage, words):
    write(str(tmp_path / "m"), map(seen, files_of(data)))
    (tmp_path / "m").write_text(damage((tmp_path / "m").read_text()))

    with pytest.raises(UserError, match=words):
        read(str(tmp_path / "m"))


def test_a_manifest_can_be_written_to_an_address(data):
    write("memory://kept/m.jsonl", map(seen, files_of(data)))

    found = read("memory://kept/m.jsonl")

    assert [one.path for one in found.files] == files_of(data)
    assert len(members(found, matched(found, files_of(data)))[files_of(data)[0]]) == 4 * 3 * shards.SAMPLES
