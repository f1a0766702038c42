"""The list of what training should leave out, and the filters that do so: tried with the loaders they are for."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shards

from unstuck.checking.check import check
from unstuck.checking.notes import MOST, Notes, Wish
from unstuck.checking.quarantine import (
    BadSample,
    bad_samples,
    map_style_filter,
    may_be_written,
    webdataset_filter,
    write,
)
from unstuck.errors import UserError
from unstuck.evidence.data import Asked, Data, DataFile
from unstuck.wording.printable import MOST as LONGEST_NAME
from unstuck.wording.printable import shortened


def read(path: str) -> list[BadSample]:
    with open(path, encoding="utf-8") as lines:
        return [BadSample(*json.loads(line)) for line in lines if line.startswith("[")]


def checked(*paths: Path, decode: bool = True) -> Data:
    return Data(Asked([]), [check(str(path), Wish(decode=decode)).file for path in paths])


def noted(name: str, kind: str, note: Callable[[Notes], None], **facts: object) -> DataFile:
    """A file as a reader notes what is wrong with it."""
    notes = Notes(name, 100, Wish())
    note(notes)
    return notes.file(format=kind, **facts)


def listed(*files: DataFile) -> list[tuple[str, str | int]]:
    return [(os.path.basename(one.file), one.what) for one in bad_samples(Data(Asked([]), [*files]))]


def damaged(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def with_broken_json(folder: Path, name: str = "a.tar") -> Path:
    """The third of six samples has JSON that ends too early."""
    members = [(one, b'{"caption": ' if one == "000002.json" else data) for one, data in texts()]
    return shards.write(folder / name, iter(members))


def texts() -> Iterator[tuple[str, bytes]]:
    return ((name, data) for name, data in shards.members() if not name.endswith(".jpg"))


def test_samples_are_named_by_key_and_files_that_give_nothing_as_a_whole(tmp_path):
    html = damaged(tmp_path / "b.tar", b"<!doctype html><html>not found</html>")
    empty = damaged(tmp_path / "c.tar", b"")

    found = bad_samples(checked(with_broken_json(tmp_path), html, empty))

    assert found == [(str(tmp_path / "a.tar"), "000002"), (str(html), "*"), (str(empty), "*")]


def test_the_sample_that_was_cut_off_is_named_and_those_before_it_are_not(tmp_path):
    whole = shards.write(tmp_path / "whole.tar", shards.members()).read_bytes()
    header = whole.index(b"000003.json")
    for more in (0, 100, 512 + 10):  # between two members, in a header, in data
        cut = damaged(tmp_path / "cut.tar", whole[: header + more])

        assert bad_samples(checked(cut, decode=False)) == [(str(cut), "000003")]


def test_samples_that_lack_a_part_are_named_and_an_archive_of_nothing_else_as_a_whole(tmp_path):
    def shard(number: int, *lacking: int) -> Path:
        names = [
            f"{at:03d}.{part}" for at in range(40) for part in ("jpg", "txt") if part == "jpg" or at not in lacking
        ]
        return shards.write(tmp_path / f"s-{number}.tar", ((name, b"x" * 99) for name in names))

    whole = [shard(number) for number in range(12)]
    found = bad_samples(checked(*whole, shard(12, 7, 31), shard(13, *range(40)), decode=False))

    assert [(os.path.basename(file), what) for file, what in found] == [
        ("s-12.tar", "007"),
        ("s-12.tar", "031"),
        ("s-13.tar", "*"),
    ]


def test_rows_and_lines_are_counted_from_0(tmp_path):
    def row(notes: Notes) -> None:
        notes.fault("undecodable", "x", sample="7", row=7, lost=1)

    assert listed(noted("a.jsonl", "jsonl", row, samples=9)) == [("a.jsonl", 6)]
    assert listed(noted("a.parquet", "parquet", row, samples=9)) == [("a.parquet", 7)]


def test_all_rows_of_a_damaged_row_group_are_bad(tmp_path):
    group = noted("a.parquet", "parquet", lambda notes: notes.fault("damaged", "x", row=2, lost=3), samples=9)
    large = noted("b.parquet", "parquet", lambda notes: notes.fault("damaged", "x", row=2, lost=10**9), samples=9)

    assert listed(group, large) == [("a.parquet", 2), ("a.parquet", 3), ("a.parquet", 4), ("b.parquet", "*")]


def test_a_picture_is_left_out_as_a_whole_and_a_sample_that_only_stands_twice_is_not(tmp_path):
    picture = noted("a.jpg", "image", lambda notes: notes.fault("image", "x", sample="a.jpg", lost=1))
    twice = noted("a.tar", "tar", lambda notes: notes.fault("tar-duplicate", "x", sample="1", lost=1), samples=9)
    short = noted("b.tar", "tar", lambda notes: notes.fault("manifest", "3 members are gone", lost=3), samples=9)

    assert listed(picture, twice, short) == [("a.jpg", "*")]


NASTY = ["tab\there", "new\nline", "\x1b[2J", "ünicode 🙂", 'quote"s', "back\\slash", "\u202eright to left", "*/[]#"]


@pytest.mark.parametrize("key", NASTY)
def test_any_name_survives_the_list(tmp_path, key):
    file = noted(f"/data/{key}.tar", "tar", lambda notes: notes.fault("zeros", "x", sample=key, lost=1), samples=9)

    write(str(tmp_path / "list.txt"), Data(Asked([]), [file]))

    assert BadSample(f"/data/{key}.tar", key) in read(str(tmp_path / "list.txt"))
    assert all(line.isprintable() for line in (tmp_path / "list.txt").read_text().split("\n"))
    assert shortened(key) == key or (f"/data/{key}.tar", shortened(key)) in read(str(tmp_path / "list.txt"))


def test_a_list_that_is_not_complete_says_so_in_its_head(tmp_path):
    def many(notes: Notes) -> None:
        for number in range(MOST + 1154):
            notes.fault("undecodable", "x", sample=f"{number:06d}", lost=1)
        notes.fault("zeros", "x", sample="long" * LONGEST_NAME, lost=1)

    data = Data(Asked([]), [noted("/data/a.tar", "tar", many, samples=9), DataFile("/data/b.tar", unread="no")])

    assert write(str(tmp_path / "list.txt"), data) == MOST
    assert (tmp_path / "list.txt").read_text().splitlines()[:5] == [
        "# unstuck quarantine: 50 bad samples, 0 files bad as a whole",
        '# ["file", "key of a sample"], ["file", row counted from 0] or ["file", "*"] for all of it',
        '# INCOMPLETE: 1,155 more bad samples of "/data/a.tar" are not named here; put "*" to leave out the whole file',
        "# INCOMPLETE: 1 file not read to the end",
        '["/data/a.tar", "000000"]',
    ]


def test_only_a_list_of_ours_is_written_over(tmp_path):
    (tmp_path / "train.txt").write_text("a.tar\n")

    with pytest.raises(UserError, match="is there already and is no quarantine list of unstuck"):
        write(str(tmp_path / "train.txt"), Data(Asked([])))

    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        may_be_written(str(tmp_path / "none" / "list.txt"))
    assert (tmp_path / "train.txt").read_text() == "a.tar\n"
    assert [write(str(tmp_path / "list.txt"), Data(Asked([]))) for _ in range(2)] == [0, 0]


@pytest.mark.scenario
def test_with_the_filter_webdataset_gives_all_good_samples_and_no_other(tmp_path, monkeypatch):
    import webdataset as wds

    monkeypatch.chdir(tmp_path)
    whole = shards.write(tmp_path / "whole.tar", texts()).read_bytes()
    paths = [
        with_broken_json(tmp_path),
        damaged(tmp_path / "cut.tar", whole[: whole.index(b"000003.cls") + 512]),
        damaged(tmp_path / "empty.tar", b""),
        tmp_path / "whole.tar",
    ]
    write("list.txt", checked(*paths))

    scope = {"wds": wds, "urls": [*(str(one) for one in paths[:3]), "whole.tar"]}
    exec(webdataset_filter("list.txt"), scope)
    got = [(os.path.basename(one["__url__"]), one["__key__"]) for one in scope["dataset"] if json.loads(one["json"])]

    expected = [("a.tar", number) for number in (0, 1, 3, 4, 5)] + [("cut.tar", number) for number in range(3)]
    expected += [("whole.tar", number) for number in range(6)]
    assert sorted(got) == [(name, f"{number:06d}") for name, number in expected]


@pytest.mark.scenario
def test_with_the_filter_a_map_style_dataset_gives_all_good_rows_and_no_other(tmp_path):
    from torch.utils.data import DataLoader

    lines = {"a.jsonl": ['{"n": 0}', '{"n": ', '{"n": 2}'], "b.jsonl": ['{"n": 10}'], "c.jsonl": []}
    for name, content in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in content))
    paths = [str(tmp_path / name) for name in lines]
    write(str(tmp_path / "list.txt"), checked(*map(Path, paths)))

    parts = [Lines(one) for one in paths if os.path.getsize(one)]
    scope: dict[str, object] = {"paths": paths, "parts": parts}
    exec(map_style_filter(str(tmp_path / "list.txt")), scope)

    assert [int(one["n"]) for one in DataLoader(scope["dataset"], batch_size=None)] == [0, 2, 10]
    assert scope["paths"] == paths[:2]


class Lines:
    """As people write it: a row is decoded when it is asked for."""

    def __init__(self, path: str) -> None:
        self._lines = Path(path).read_text().splitlines()

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> dict[str, int]:
        return json.loads(self._lines[index])


@pytest.mark.parametrize("made", [webdataset_filter, map_style_filter])
def test_a_filter_is_short_enough_to_paste(made):
    code = made("list.txt")

    assert len(code.splitlines()) <= 11
    assert max(map(len, code.splitlines())) < 160
    compile(code, "pasted", "exec")
    assert io.StringIO(code).readline() == "import json, os\n"


def test_a_filter_works_with_an_empty_list(tmp_path):
    write(str(tmp_path / "list.txt"), Data(Asked([])))
    scope: dict[str, object] = {}
    exec(map_style_filter(str(tmp_path / "list.txt")).partition("paths =")[0], scope)

    assert scope["bad"] == set()
    assert scope["good"]("s3://bucket/a.tar", "1")
