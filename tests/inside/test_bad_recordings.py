"""Files that are no recordings, or no longer: each is refused in one sentence, and none is taken for another."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from unstuck.errors import UserError
from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.recordings.decoder import Unfinished
from unstuck.recordings.reader import Facts, Recording

LAYOUT = f.Layout(board=4, totals=4, ring=16, notes=8, strings=1024, last_words=512)


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A good recording with some words of its header changed."""

    def make(words: dict[int, int] | None = None, length: int | None = None) -> Path:
        recorder = Recorder(str(tmp_path / "good.rec"), LAYOUT)
        recorder.publish()
        recorder.event(1, 1, 1, 1)
        data = bytearray(Path(recorder.path).read_bytes())
        for at, word in (words or {}).items():
            struct.pack_into("<Q", data, at * f.WORD, word)
        path = tmp_path / "node.1.2.3.rec"
        path.write_bytes(data[:length])
        return path

    return make


def test_a_good_one_is_read(changed: Callable[..., Path]) -> None:
    assert len(Recording(changed()).ring()) == 1


def test_a_file_that_is_still_empty_says_nothing(changed: Callable[..., Path]) -> None:
    with pytest.raises((UserError, Unfinished)):
        Recording(changed(length=0))


@pytest.mark.parametrize("length", [1, 4095, 4096, 5000, LAYOUT.size() - 1])
def test_a_truncated_file_is_called_cut_short(changed: Callable[..., Path], length: int) -> None:
    with pytest.raises(UserError, match="cut short"):
        Recording(changed(length=length))


def test_a_foreign_file_is_called_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "model.rec"
    path.write_bytes(random.Random(1).randbytes(100_000))
    with pytest.raises(UserError, match="not a recording"):
        Recording(path)


def test_a_newer_format_asks_for_an_upgrade(changed: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="newer unstuck") as refused:
        Recording(changed({f.H_VERSION: f.VERSION + 1}))
    assert "upgrade" in str(refused.value)


def test_a_recording_without_its_magic_is_unfinished(changed: Callable[..., Path]) -> None:
    with pytest.raises(Unfinished):
        Recording(changed({f.H_MAGIC: 0}))


@pytest.mark.parametrize("section", range(5))
@pytest.mark.parametrize("word", [1 << 40, (1 << 64) - 8, 4099])
def test_a_damaged_section_table_is_called_damaged(changed: Callable[..., Path], section: int, word: int) -> None:
    with pytest.raises(UserError, match="damaged"):
        Recording(changed({f.H_SECTIONS + 2 * section: word}))


def test_a_file_that_cannot_be_opened_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        Recording(tmp_path / "gone.rec")


def test_random_damage_behind_the_header_breaks_no_reader(tmp_path: Path) -> None:
    # given recordings whose sections are noise
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), LAYOUT)
    recorder.publish()
    good = Path(recorder.path).read_bytes()
    noise = random.Random(7)
    for turn in range(50):
        path = tmp_path / f"node.1.{turn}.4.rec"
        path.write_bytes(good[: f.HEADER_SIZE] + noise.randbytes(len(good) - f.HEADER_SIZE))
        # when they are read; then nothing is raised
        recording = Recording(path)
        recording.ring(), recording.board(), recording.totals(), recording.last_words(), recording.string(1)
        Facts(recording, 0.0)
