"""What follows recordings while they are written meets spoilt ones: an OSError or ValueError, and nothing else."""

from __future__ import annotations

import contextlib
import random
import shutil

import pytest
import spoiling
from made_up import STARTED, a_run

from unstuck.logs.files import Settings
from unstuck.logs.folder import LogFolder
from unstuck.logs.rank import NOTES, RING
from unstuck.logs.writer import Logs
from unstuck.recordings.boards import Board
from unstuck.recordings.folder import run_of
from unstuck.recordings.tail import Tail

SEEDS, EACH = 4, 512  # 2,048 of each
EVERYTHING = 1_000_000  # lines


@pytest.fixture
def spoilt(tmp_path):
    """Gives one spoilt recording after the other, each at the same path."""
    folder = a_run(tmp_path / "run", ranks=1)
    good = [path.read_bytes() for path in sorted((folder / "recordings").glob("*.rec"))]
    path = tmp_path / "node.1.2.3.rec"

    def each(seed):
        chance = random.Random(seed)
        for number in range(EACH):
            how, data = spoiling.recording(chance.choice(good), chance)
            path.write_bytes(data)
            with spoiling.in_time((seed, number, how)):
                yield path

    return each


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_board_is_read_or_refused(spoilt, seed):
    read = 0
    with spoiling.within_memory():
        for path in spoilt(seed):
            with contextlib.suppress(OSError, ValueError):
                with contextlib.closing(Board(path)) as board:
                    board.signature()
                    board.begun()
                    board.usual(*board.newest()[:2])
                    board.rank()
                    board.role()
                    read += 1
    assert read > EACH / 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_recording_is_followed_or_refused(spoilt, seed):
    read = 0
    with spoiling.within_memory():
        for path in spoilt(seed):
            with contextlib.suppress(OSError, ValueError):
                with contextlib.closing(Tail(str(path), RING, NOTES)) as tail:
                    for record in [*tail.ring.new(), *tail.notes.new()]:
                        tail.string(record.a)
                    tail.board()
                    tail.new_last_words()
                    read += 1
    assert read > EACH / 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_logs_are_written_of_what_can_be_read(tmp_path, seed):
    folder = a_run(tmp_path / "run")
    good = {path: path.read_bytes() for path in sorted((folder / "recordings").glob("*.rec"))}
    run, chance = run_of(folder), random.Random(seed)
    with spoiling.within_memory():
        for number in range(EACH // 4):
            for path in (spoilt := chance.sample(sorted(good), 4)):
                path.write_bytes(spoiling.recording(good[path], chance)[1])
            written = LogFolder(str(tmp_path / "logs"), run, Settings(), run.started, print)
            with spoiling.in_time((seed, number)), contextlib.suppress(OSError, ValueError):
                Logs(written, str(folder / "recordings"), at_once=EVERYTHING).tick(STARTED + 100, set(), final=True)
            written.close(STARTED + 101)
            shutil.rmtree(tmp_path / "logs", ignore_errors=True)
            for path in spoilt:
                path.write_bytes(good[path])
