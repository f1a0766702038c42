"""Which files an exception is told to be about: those that were open, or that are files; not any text with a slash."""

from __future__ import annotations

import errno
import gzip
import json
import struct
from pathlib import Path

import pytest

from unstuck.analysis.case import user_line
from unstuck.evidence.basics import Place
from unstuck.evidence.process import Failure
from unstuck.inside.failures.exceptions import describe


def in_hand(load, *, fetching: bool = True) -> list[str]:
    try:
        load()
    except Exception as error:  # noqa: BLE001  (whatever it is)
        return describe(error, "fetch", {"position": 0} if fetching else {})["paths"]
    raise AssertionError("nothing was raised")


def test_texts_with_a_slash_are_no_files() -> None:
    def load() -> None:
        label, kind, day, folder = "dog/puppy", "image/jpeg", "12/05/2024", "/tmp"
        raise ValueError(label, kind, day, folder)

    assert in_hand(load) == []


def test_a_file_that_was_read_and_closed_is_in_hand(tmp_path: Path) -> None:
    path = str(tmp_path / "17.bin")
    Path(path).write_bytes(b"123")

    def load() -> object:
        kind, name = "image/jpeg", path
        return kind, struct.unpack("<Q", Path(name).read_bytes())

    assert in_hand(load) == [path]


def test_a_file_that_is_open_comes_before_all_that_is_only_named(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "17.json").write_text("{")

    def load() -> object:
        settings = str(tmp_path / "settings.json")
        with open(tmp_path / "17.json") as file:
            return settings, json.load(file)

    assert in_hand(load) == [str(tmp_path / "17.json")]


def test_an_address_needs_no_file() -> None:
    def load() -> None:
        url = "s3://bucket/train/00017.tar"
        raise ValueError(url)

    assert in_hand(load) == ["s3://bucket/train/00017.tar"]


def test_the_file_that_the_system_names_need_not_be_there() -> None:
    assert in_hand(lambda: Path("/not/there/17.bin").read_bytes()) == ["/not/there/17.bin"]


def test_a_library_that_was_given_a_broken_file_names_it(tmp_path: Path) -> None:
    path = tmp_path / "17.gz"
    path.write_bytes(b"no gzip at all")

    def load() -> bytes:
        with gzip.open(path) as file:
            return file.read()

    assert in_hand(load, fetching=False) == [str(path)]


@pytest.mark.parametrize("error", [TimeoutError("read"), OSError(errno.EIO, "I/O error")])
def test_storage_that_does_not_answer_is_not_asked_again(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        path = "/etc/passwd"
        raise error from KeyError(path)

    asked: list[object] = []
    monkeypatch.setattr("unstuck.inside.failures.exceptions.os.stat", asked.append)

    assert in_hand(load) == []
    assert asked == []


def test_the_file_of_the_exception_that_others_were_made_from_comes_first(tmp_path: Path) -> None:
    """As Hugging Face's datasets do: what they raise is about nothing but their lock."""
    (tmp_path / "train.jsonl").write_text("{")

    def load() -> None:
        with open(tmp_path / "builder.lock", "w") as lock:
            try:
                with open(tmp_path / "train.jsonl") as file:
                    json.load(file)
            except ValueError as error:
                raise RuntimeError("could not be generated", lock) from error

    assert in_hand(load) == [str(tmp_path / "train.jsonl")]


def test_other_addresses_than_those_of_data_are_no_files() -> None:
    def load() -> None:
        database = "sqlite:////var/runs.db"
        raise ValueError(database)

    assert in_hand(load) == []


def test_the_users_line_is_kept_below_whatever_many_calls_of_a_library() -> None:
    library = "def deep(left):\n    return deep(left - 1) if left else 1 / 0\n"
    names: dict = {}
    exec(compile(library, "/venv/lib/python3.11/site-packages/deep.py", "exec"), names)
    try:
        names["deep"](40)
    except ZeroDivisionError as error:
        frames = describe(error, "uncaught", {})["frames"]

    assert len(frames) == 24
    assert frames[0]["file"] == __file__
    assert frames[-1]["file"].endswith("deep.py")


def test_frames_that_cython_made_are_a_librarys(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    try:
        parquet.ParquetFile(str(tmp_path / "cut.parquet"))
    except Exception as error:  # noqa: BLE001  (pyarrow's own)
        known = describe(error, "uncaught", {})

    places = [Place(frame["file"], frame["line"], frame["function"]) for frame in known["frames"]]
    assert any(place.file.endswith(".pxi") for place in places)
    assert user_line(Failure("uncaught", known["type"], frames=places)).file == __file__
