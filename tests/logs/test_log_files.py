"""Log files: their lines, their bounds, and reading them while they are written and set aside."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from unstuck.errors import UserError
from unstuck.logs.files import ERROR, INFO, WARNING, Line, LogFile, from_variables, older, read, stamp, written
from unstuck.logs.reading import Follower, has_ended, logs_of
from unstuck.logs.to_logging import hand, log_to


def test_a_line_is_written_as_documented_and_read_back():
    at = time.mktime((2026, 5, 1, 3, 15, 0, 0, 0, -1)) + 0.25

    text = written(Line(at, ERROR, "error", "❌ [Rank 3 Worker 1] Error reading\nshard 7"))

    assert text == "[2026-05-01 03:15:00,250] [ERROR] [unstuck.error] ❌ [Rank 3 Worker 1] Error reading | shard 7\n"
    known = read(text)
    assert (known.at, known.level, known.name, known.rank, known.worker) == (at, "ERROR", "unstuck.error", 3, 1)


@pytest.mark.parametrize("text", ["", "plain", "[INFO] no time", "[2026-05-01 03:15:00,250] [LOUD] [x] y"])
def test_what_is_no_line_of_ours_is_nothing(text):
    assert read(text) is None


def test_a_file_is_bounded_and_its_newest_lines_are_kept(tmp_path):
    path = str(tmp_path / "train_x.log")
    file = LogFile(path, limit=1000, kept=2)

    for number in range(500):
        file.write(f"line {number:04d}\n".encode())

    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["train_x.1.log", "train_x.2.log", "train_x.log"]
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) <= 3000
    assert Follower(path).everything()[-1] == "line 0499"
    assert Follower(path).everything() == [f"line {number:04d}" for number in range(200, 500)]


def test_one_write_may_be_larger_than_the_limit(tmp_path):
    file = LogFile(str(tmp_path / "a.log"), limit=100)

    file.write(b"x" * 1000)
    file.write(b"y\n")

    assert (tmp_path / "a.log").read_bytes() == b"y\n"
    assert (tmp_path / "a.1.log").read_bytes() == b"x" * 1000


def test_a_tail_that_is_running_goes_on_over_a_rotation(tmp_path):
    path = tmp_path / "a.log"
    file = LogFile(str(path), limit=100)
    file.write(b"first\n")
    tail = subprocess.Popen(["tail", "-f", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert tail.stdout.readline() == "first\n"
        file.write(b"z" * 99 + b"\n")
        file.write(b"last\n")
        seen = [tail.stdout.readline() for _ in range(1)]
        while "last\n" not in seen:
            seen.append(tail.stdout.readline())
    finally:
        tail.kill()


def test_a_follower_misses_nothing_when_the_file_is_set_aside(tmp_path):
    path = str(tmp_path / "a.log")
    file, follower = LogFile(path, limit=300, kept=3), Follower(path)
    seen = []

    for number in range(200):
        file.write(f"line {number}\n".encode())
        if number % 7 == 0:
            seen += follower.new()

    assert seen + follower.new() == [f"line {number}" for number in range(200)]


def test_a_line_that_is_half_written_waits_for_its_other_half(tmp_path):
    path = tmp_path / "a.log"
    follower = Follower(str(path))

    assert follower.new() == []
    path.write_text("whole\nha")
    assert follower.new() == ["whole"]
    path.write_text("whole\nhalf\n")
    assert follower.new() == ["half"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_full_disk_costs_lines_and_nothing_else(tmp_path):
    script = (
        "import sys\nfrom unstuck.logs.files import LogFile\n"
        f"file = LogFile('{tmp_path}/a.log', limit=1 << 20)\n"
        "for number in range(2000):\n    file.write(b'x' * 99 + b'\\n')\n"
        "print(file.failed.strerror)\n"
    )
    command = f'mount -t tmpfs -o size=64k none {tmp_path} && "$PYTHON" -c "$SCRIPT" && cat {tmp_path}/a.log | wc -c'

    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        env={**os.environ, "SCRIPT": script, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )

    if "unshare" in ended.stderr:
        pytest.skip(f"needs a mount namespace: {ended.stderr.strip()}")
    said, size = ended.stdout.split("\n")[:2]
    assert said == "No space left on device"
    assert int(size) == 65536


def test_the_newest_logs_of_a_run_are_found_by_kind_and_rank(tmp_path):
    for name in (
        "train_20260501_031500.log", "train_20260501_031500.1.log", "train_20260502_000000_node-b.log",
        "debug_rank0_20260501_031500.log", "debug_rank12_20260501_031500.log", "debug_rank0_20260501_031500_pid7.log",
        "output_20260501_031459.log", "notes.txt",
    ):  # fmt: skip
        (tmp_path / name).touch()

    found = sorted((one.kind, one.rank) for one in logs_of(str(tmp_path)) if one.kind != "debug")
    ranks = sorted(one.rank for one in logs_of(str(tmp_path)) if one.kind == "debug")

    assert found == [("output", None), ("train", None)]
    assert ranks == [0, 0, 12]
    assert logs_of(str(tmp_path / "nowhere")) == []


def test_settings_come_from_variables():
    given = {"UNSTUCK_LOG_LEVEL": "info", "UNSTUCK_LOG_EVERY": "500", "UNSTUCK_LOG_VALIDATION_EVERY": "10"}

    assert from_variables(given)[:3] == ("INFO", 500, 10)
    assert from_variables({})[:3] == ("DEBUG", 100, 20)


@pytest.mark.parametrize("name", ["UNSTUCK_LOG_LEVEL", "UNSTUCK_LOG_EVERY", "UNSTUCK_LOG_VALIDATION_EVERY"])
@pytest.mark.parametrize("value", ["loud", "0", "-1", "1.5"])
def test_a_setting_that_makes_no_sense_is_named(name, value):
    with pytest.raises(UserError, match=name):
        from_variables({name: value})


class Kept(logging.Handler):
    def __init__(self, level=logging.NOTSET):
        super().__init__(level)
        self.records = []

    def emit(self, record):
        self.records.append(record)


def test_a_handler_gets_lines_with_their_own_time_level_and_name():
    handler = Kept(logging.INFO)
    line = read("[2026-05-01 03:15:00,250] [INFO] [unstuck.epoch] [Rank 0] EPOCH 0 TRAINING START\n")

    hand(handler, line)
    hand(handler, line._replace(level="DEBUG"))

    (record,) = handler.records
    assert (record.created, record.name, record.levelno) == (line.at, "unstuck.epoch", logging.INFO)
    formatted = logging.Formatter("%(asctime)s | %(levelname)-8s | %(name)-14s | %(message)s").format(record)
    assert formatted == "2026-05-01 03:15:00,250 | INFO     | unstuck.epoch  | [Rank 0] EPOCH 0 TRAINING START"


def test_log_to_follows_a_run_until_its_log_ends(tmp_path):
    (tmp_path / "logs").mkdir()
    file = LogFile(str(tmp_path / "logs" / f"train_{stamp(0)}.log"))
    handler = Kept()

    handing = log_to(handler, run=str(tmp_path))
    file.write(written(Line(1.0, INFO, "run", "Starting training...")).encode())
    time.sleep(0.7)
    file.write(written(Line(2.0, INFO, "run", "The log ends here.")).encode())
    handing.wait(120)

    assert [one.getMessage() for one in handler.records] == ["Starting training...", "The log ends here."]
    assert "unstuck log_to" not in [one.name for one in threading.enumerate()]


@pytest.mark.parametrize(
    "line",
    [
        Line(1.0, INFO, "note", "[Rank 0] [NOTE] text=The log ends here."),
        Line(1.0, INFO, "run", "command: echo The log ends here."),
        Line(1.0, INFO, "data", "The log ends here."),
        Line(1.0, WARNING, "run", "The log ends here."),
        Line(1.0, INFO, "note", "first\n[2026-05-01 03:15:00,250] [INFO] [unstuck.run] The log ends here."),
    ],
)
def test_what_a_user_says_does_not_end_a_log(line):
    assert not has_ended(written(line).splitlines())
    assert not has_ended(["The log ends here."])
    assert has_ended(written(Line(1.0, INFO, "run", "The log ends here.")).splitlines())


def test_log_to_goes_on_after_a_note_with_the_words_of_the_end(tmp_path):
    (tmp_path / "logs").mkdir()
    file = LogFile(str(tmp_path / "logs" / f"train_{stamp(0)}.log"))
    note = Line(1.0, INFO, "note", "[Rank 0] [NOTE] text=The log ends here.")
    file.write(written(note).encode())
    handler = Kept()

    handing = log_to(handler, run=str(tmp_path))
    until = time.monotonic() + 60
    while not handler.records and time.monotonic() < until:
        time.sleep(0.02)
    file.write(written(Line(2.0, INFO, "epoch", "[Rank 0] more")).encode())
    file.write(written(Line(3.0, INFO, "run", "The log ends here.")).encode())
    handing.wait(60)

    assert [one.getMessage() for one in handler.records] == [note.text, "[Rank 0] more", "The log ends here."]


def test_log_to_does_nothing_where_nothing_records(monkeypatch):
    monkeypatch.delenv("UNSTUCK_FOLDER", raising=False)

    assert log_to(Kept()) is None


FORKS = """
import logging, os, sys, time
sys.path.insert(0, {source!r})
from unstuck.logs.to_logging import Handing, hand
from unstuck.logs.files import INFO, Line, read, written
line = written(Line(1.0, INFO, "run", "x" * 1500))
os.makedirs("logs")
with open("logs/train_20260501_031500.log", "w") as file:
    file.write(line * 3000)
stream = open("mine.log", "w", buffering=1 << 16)
handing = Handing(logging.StreamHandler(stream), "logs", None).start()
time.sleep(0.55)  # it is at work now
children = 0
for _ in range(40):
    pid = os.fork()
    if pid == 0:
        stream.write("child\\n")  # waits for ever, if the stream's lock came along
        stream.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    children += 1
handing.stop()
print(children, handing._thread.is_alive())
"""


def test_a_fork_takes_no_lock_of_a_handler_along(tmp_path):
    """The children wait for ever within a few rounds, if the gate in handing.py is taken away."""
    source = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")

    ended = subprocess.run(
        [sys.executable, "-c", FORKS.format(source=source)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert ended.stdout == "40 False\n", ended.stderr


def test_older_parts_are_named_so_that_the_usual_pattern_finds_them():
    assert older("logs/debug_rank0_20260501_031500.log", 2) == "logs/debug_rank0_20260501_031500.2.log"
