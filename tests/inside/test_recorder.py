"""The writer: whatever instant a process dies at, and whoever reads meanwhile, what is read is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from running import INSIDE, write

from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.core.recorder import __file__ as recorder_file
from unstuck.recordings.reader import Recording

# Everything is derived from one number, so that a mixture of two writes shows.
WRITER = """
import os, random, signal, sys, time
sys.path.insert(0, {package!r})
from inside import format as f
from inside.core.recorder import Recorder

def write_for_ever(path, ready=None):
    recorder = Recorder(path, f.Layout(board=8, totals=4, ring=64, notes=8, strings=65536, last_words=1024))
    recorder.publish()
    if ready is not None:
        os.write(ready, b"!")
    plain, text = recorder.board_slot(1, 1), recorder.board_slot(2, 2)
    total = recorder.total_slot(3)
    number = 0
    while True:
        number += 1
        name = recorder.intern("s" * (number % 50) + str(number % 500))
        recorder.event(number, number, number, number, number, number, name)
        recorder.events(number, number, *[[number] * 12] * 4, [name] * 12)
        recorder.note(number, number, number, number, number, number, name)
        recorder.board(plain, number, number, number, number, number, number, number)
        recorder.board_text(text, 2, number, number, str(number) * (1 + number % 40), number, number)
        recorder.total(total, 1000)
        if number % 16 == 0:
            filling = "x" * (number % 700)
            recorder.last_words('[{{"number": %d, "filling": "%s", "again": %d}}]' % (number, filling, number))

if sys.argv[2] == "live":
    write_for_ever(sys.argv[1] + "/live.rec")
reading, ready = os.pipe()
for turn in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        write_for_ever("%s/%d.rec" % (sys.argv[1], turn), ready)
    os.read(reading, 1)
    time.sleep(random.uniform(0, 0.003))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


def torn(recording: Recording) -> list[object]:
    """Everything in a recording of WRITER's that is not all of one write."""
    found: list[object] = []
    sequences = [one[f.R_SEQUENCE] for one in recording.ring()]
    for record in recording.ring() + recording.notes():
        number = record[f.R_KIND]
        named = "s" * (number % 50) + str(number % 500)
        if number == 0 or record[f.R_KIND : f.R_C] != [number] * 6:
            found.append(("ring", record))
        elif record[f.R_C] and recording.string(record[f.R_C]) != named:
            found.append(("string", record, recording.string(record[f.R_C])))
    if len(set(sequences)) != len(sequences):
        found.append(("sequences", sequences))
    for entry in recording.board():
        number = entry.since
        text = "" if entry.kind != 2 or entry.d else (str(number) * (1 + number % 40))[-f.BOARD_TEXT :]
        same = {entry.key, entry.a, entry.b} | (set() if entry.text else {entry.kind, entry.c, entry.d})
        if number == 0 or same != {number} or (entry.text and entry.text != text):
            found.append(("board", entry))
    found += [("last words", said) for said in recording.last_words() if said["number"] != said["again"]]
    return found


def is_published(path: Path) -> bool:
    return path.exists() and any(path.read_bytes()[:8])


@pytest.fixture
def writer(tmp_path: Path) -> Path:
    return write(tmp_path / "writer.py", WRITER.format(package=str(INSIDE.parent)))


@pytest.mark.scenario
def test_a_thousand_kills_at_random_instants_leave_no_zero_and_no_mixed_record(writer: Path, tmp_path: Path) -> None:
    # given a process that writes as fast as it can
    # when it is killed, a thousand times
    subprocess.run([sys.executable, "-I", "-S", writer, tmp_path, "1000"], check=True, timeout=120)
    # then every recording is readable and whole
    recordings = [Recording(path) for path in sorted(tmp_path.glob("*.rec"))]
    assert len(recordings) == 1000
    assert sum(len(one.ring()) for one in recordings) > 10_000
    assert [torn(one) for one in recordings if torn(one)] == []


def test_reading_while_it_is_written_gives_no_torn_record(writer: Path, tmp_path: Path) -> None:
    # given a process that writes as fast as it can
    live = subprocess.Popen([sys.executable, "-I", "-S", writer, tmp_path, "live"])
    path = tmp_path / "live.rec"
    try:
        while not is_published(path):
            time.sleep(0.005)
        # when it is read meanwhile
        found: list[object] = []
        newest: list[int] = []
        while len(set(newest)) <= 20 or len(newest) < 200:
            recording = Recording(path)
            found += torn(recording)
            newest.append(max((one[f.R_SEQUENCE] for one in recording.ring()), default=0))
    finally:
        os.kill(live.pid, signal.SIGKILL)
        live.wait()
    # then nothing is torn, though it changed between readings
    assert found == []


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    made = Recorder(str(tmp_path / "one.rec"), f.WORKER_LAYOUT)
    made.publish()
    return made


def test_what_is_written_is_read_back(recorder: Recorder) -> None:
    # given one of each
    name = recorder.intern("näme")
    recorder.event(7, name, 100, 20, 1, -2, 3)
    recorder.total(recorder.total_slot(7, name), 20)
    recorder.total(recorder.total_slot(7, name), 30)
    recorder.board_text(recorder.board_slot(8, 5), 8, 5, 99, "x" * 300 + "end", 1, 2)
    recorder.last_words('[{"type": "KeyError"}]')
    # when the file is read
    recording = Recording(Path(recorder.path))
    # then each is there
    assert recording.string(name) == "näme"
    assert recording.ring()[0][f.R_KIND :] == [7, name, 100, 20, 1, f.MASK - 1, 3]
    total = recording.totals()[7, name]
    assert (total[0], total[1], sum(total[2:])) == (50, 30, 2)
    (entry,) = recording.board()
    assert (entry.kind, entry.key, entry.since, entry.a, entry.b) == (8, 5, 99, 1, 2)
    assert len(entry.text) == f.BOARD_TEXT
    assert entry.text.endswith("xend")
    assert recording.last_words() == [{"type": "KeyError"}]


def test_the_space_is_reserved_before_it_is_mapped(recorder: Recorder) -> None:
    # given a recording into which nothing was written; then its blocks are there already
    status = os.stat(recorder.path)
    assert status.st_blocks * 512 >= status.st_size == f.WORKER_LAYOUT.size()


def test_a_recording_keeps_to_its_size() -> None:
    assert f.MAIN_LAYOUT.size() <= 4 << 20
    assert f.WORKER_LAYOUT.size() <= 256 << 10


def test_when_the_ring_wraps_the_newest_records_and_all_totals_stay(recorder: Recorder) -> None:
    # given more events than the ring holds
    slot = recorder.total_slot(1)
    for number in range(1, 3 * f.WORKER_LAYOUT.ring):
        recorder.event(1, 0, number, 0)
        recorder.total(slot, 10)
    # when it is read
    recording = Recording(Path(recorder.path))
    # then
    starts = [one[f.R_START] for one in recording.ring()]
    assert starts == list(range(2 * f.WORKER_LAYOUT.ring, 3 * f.WORKER_LAYOUT.ring))
    assert sum(recording.totals()[1, 0][2:]) == 3 * f.WORKER_LAYOUT.ring - 1


@pytest.mark.parametrize("many", [1, 7, 8, 300, 3 * f.WORKER_LAYOUT.ring + 5])
def test_many_events_at_once_are_those_one_by_one(recorder: Recorder, tmp_path: Path, many: int) -> None:
    # given the same events, behind a few others, by columns and one by one
    other = Recorder(str(tmp_path / "two.rec"), f.WORKER_LAYOUT)
    other.publish()
    columns = [range(many), [2 * one for one in range(many)], [-one for one in range(many)]]
    for one in (recorder, other):
        for _ in range(f.WORKER_LAYOUT.ring - 3):
            one.event(9, 9, 9, 9)
    recorder.events(5, 6, *columns)
    recorder.totals(recorder.total_slot(5), columns[1])
    for start, duration, a in zip(*columns, strict=True):
        other.event(5, 6, start, duration, a)
        other.total(other.total_slot(5), duration)
    # then what is read is the same
    mine, others = (Recording(Path(one.path)) for one in (recorder, other))
    assert mine.ring() == others.ring()
    assert mine.totals() == others.totals()


def test_names_made_up_in_a_loop_fill_neither_the_file_nor_the_memory(recorder: Recorder) -> None:
    # given far more names than there is room for
    numbers = [recorder.intern(f"file {number}") for number in range(20_000)]
    # then those that fit are readable, the rest is nothing, and only the first are remembered
    recording = Recording(Path(recorder.path))
    kept = [number for number in numbers if number]
    assert 1000 < len(kept) < 5000
    assert [recording.string(number) for number in kept] == [f"file {number}" for number in range(len(kept))]
    assert recording.header[f.H_STRINGS_LOST] == 20_000 - len(kept)
    assert len(recorder._interned) == len(kept)


def test_slots_beyond_the_last_spoil_no_other_and_cost_no_more_each(recorder: Recorder) -> None:
    # given more keys than there are slots
    begun = time.process_time()
    for key in range(1, 20_000):
        recorder.total(recorder.total_slot(1, key), 5)
        recorder.board(recorder.board_slot(1, key), 1, key, 1)
    # then the first have their own, and it was no quadratic work
    totals = Recording(Path(recorder.path)).totals()
    assert totals == {(1, key): totals[1, 1] for key in range(1, f.WORKER_LAYOUT.totals)}
    assert sum(totals[1, 1][2:]) == 1
    assert time.process_time() - begun < 2


def test_a_thread_that_comes_in_between_on_any_line_spoils_no_string_and_no_slot(recorder: Recorder) -> None:
    # given another thread's work once on every line of ours: Python may switch on any
    found: dict[str, int] = {}
    slots: dict[int, int] = {}
    lines: set[int] = set()

    def other(number: int) -> None:
        found[f"other {number}"] = recorder.intern(f"other {number}")
        slots[1000 + number] = recorder.total_slot(1000 + number)
        recorder.total(slots[1000 + number], 1)

    def on_every_line(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "line" and frame.f_lineno not in lines:
            lines.add(frame.f_lineno)
            other(len(found))
        return on_every_line

    # when the recorder is used in the meantime
    sys.settrace(lambda frame, *_: on_every_line if frame.f_code.co_filename == recorder_file else None)
    try:
        slot = recorder.total_slot(7)
        recorder.total(slot, 1)
        for number in range(20):
            lines.clear()
            found[f"mine {number}"] = recorder.intern(f"mine {number}")
    finally:
        sys.settrace(None)
    # then every string is the one that was named, and every total its own
    recording = Recording(Path(recorder.path))
    assert len(found) > 200
    assert {text: recording.string(number) for text, number in found.items()} == {text: text for text in found}
    assert slot not in slots.values()
    assert sum(recording.totals()[7, 0][2:]) == 1


def test_a_recorder_that_was_abandoned_writes_to_nowhere(recorder: Recorder) -> None:
    # given a recorder of the parent's, as a fork has it
    recorder.event(1, 0, 1, 1)
    before = Path(recorder.path).read_bytes()
    slot = recorder.board_slot(1)
    recorder.abandon()
    # when something that still holds it goes on
    recorder.event(2, 0, 2, 2)
    recorder.board(slot, 1, 1, 1)
    recorder.intern("more")
    # then nothing is raised and the file is as it was
    assert Path(recorder.path).read_bytes() == before
