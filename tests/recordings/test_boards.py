"""The stall clock reads recordings while they are written: what counts as progress, who still counts, what is usual."""

from __future__ import annotations

import os
import sys
import time

import pytest

from stuck import TRAINING, place_at, wait_for
from unstuck.evidence.live import Stall
from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder, clock
from unstuck.inside.format import Kind, RecordingName, recording_name
from unstuck.recordings.boards import Board
from unstuck.recordings.decoder import AT_FIRST, Entry
from unstuck.recordings.reader import Facts, Recording
from unstuck.recordings.tail import Tail
from unstuck.watching.recorded_run import environment
from unstuck.watching.stall_clock import LEAST, StallClock, limit
from unstuck.watching.stalls import Options, Stalls

MAIN, WORKER, OTHER = 4001, 4002, 4003


def named(pid, parent=1):
    return RecordingName("node", parent, pid, 77)


ALIVE = {named(MAIN)}
BOTH = {named(MAIN), named(OTHER)}


def recorder_of(folder, pid, role=f.ROLE_MAIN, parent=1):
    """The real writer, under another name."""
    layout = f.MAIN_LAYOUT if role == f.ROLE_MAIN else f.WORKER_LAYOUT
    recorder = Recorder(str(folder / f"node.{parent}.{pid}.77.rec"), layout)
    recorder.words[f.H_PID], recorder.words[f.H_PARENT], recorder.words[f.H_ROLE] = pid, parent, role
    recorder.publish()
    return recorder


@pytest.fixture
def main(tmp_path):
    return recorder_of(tmp_path, MAIN)


@pytest.fixture
def stall_clock(tmp_path, main):
    clock = StallClock(tmp_path)
    clock.tick(100.0, ALIVE)
    return clock


def turn_to(recorder, kind, key=1):
    recorder.board(recorder.board_slot(Kind.LOADER, key), kind, key, clock())


def step(recorder):
    recorder.words[f.H_STEPS] += 1


def live(recorder):
    """What a loader writes with every batch: one live word of its entry."""
    recorder.words[(recorder.board_slot(Kind.LOADER, 1) >> 3) + f.L_ONE] += 1


@pytest.mark.parametrize("happens", [lambda one: turn_to(one, Kind.WAIT), step, live], ids=["board", "step", "live"])
def test_whatever_a_rank_writes_is_progress(stall_clock, main, happens):
    happens(main)
    stall_clock.tick(130.0, ALIVE)

    assert stall_clock.moved() == 130.0


def test_a_rank_that_writes_nothing_stands(stall_clock, main):
    stall_clock.tick(130.0, ALIVE)
    stall = stall_clock.stall(145.0, 55.0, 60.0)

    assert stall_clock.moved() == 100.0
    assert (stall.pid, stall.since, stall.seconds, stall.patience) == (MAIN, 10.0, 45.0, 60.0)


def test_progress_is_seen_beyond_the_entries_that_are_read_at_first(stall_clock, main):
    for key in range(AT_FIRST + 3):
        turn_to(main, Kind.STAGE, key)
    stall_clock.tick(110.0, ALIVE)
    stall_clock.tick(120.0, ALIVE)

    turn_to(main, Kind.STAGE, AT_FIRST + 2)
    stall_clock.tick(130.0, ALIVE)

    assert stall_clock.moved() == 130.0


def test_a_worker_that_gets_on_moves_its_rank(tmp_path, stall_clock, main):
    worker = recorder_of(tmp_path, WORKER, f.ROLE_WORKER, parent=MAIN)
    stall_clock.tick(110.0, {named(MAIN), named(WORKER, MAIN)})

    live(worker)
    stall_clock.tick(130.0, {named(MAIN), named(WORKER, MAIN)})

    assert stall_clock.moved() == 130.0
    assert stall_clock.stall(130.0, 0.0, 60.0).pid == MAIN


def test_a_run_gets_on_for_as_long_as_one_of_its_ranks_does(tmp_path, stall_clock, main):
    other = recorder_of(tmp_path, OTHER)
    other.words[f.H_RANK] = 2  # stored plus one
    stall_clock.tick(110.0, BOTH)

    step(other)
    stall_clock.tick(130.0, BOTH)
    stall = stall_clock.stall(150.0, 0.0, 60.0)

    assert (stall.pid, stall.rank, stall.seconds) == (OTHER, 1, 20.0)


def test_a_process_that_has_ended_no_longer_counts(tmp_path, stall_clock, main):
    recorder_of(tmp_path, OTHER)
    stall_clock.tick(110.0, BOTH)

    stall_clock.tick(120.0, ALIVE)
    one_left = stall_clock.stall(125.0, 0.0, 60.0)
    stall_clock.tick(130.0, set())

    assert one_left.pid == MAIN
    assert stall_clock.moved() is None
    assert stall_clock.stall(140.0, 0.0, 60.0) is None


def test_a_file_that_is_no_recording_yet_is_met_later(tmp_path):
    path = tmp_path / f"node.1.{MAIN}.77.rec"
    path.write_bytes(bytes(8192))
    stall_clock = StallClock(tmp_path)
    stall_clock.tick(100.0, ALIVE)
    early = stall_clock.moved()
    path.unlink()

    recorder_of(tmp_path, MAIN)
    stall_clock.tick(110.0, ALIVE)

    assert (early, stall_clock.moved()) == (None, 110.0)


@pytest.mark.parametrize("content", [b"", b"UNST", bytes(100)], ids=["empty", "a few letters", "cut short"])
def test_a_stub_of_a_recording_is_no_error(tmp_path, content):
    (tmp_path / f"node.1.{MAIN}.77.rec").write_bytes(content)
    stall_clock = StallClock(tmp_path)

    stall_clock.tick(100.0, ALIVE)

    assert stall_clock.moved() is None


def test_a_folder_that_is_gone_is_no_error(tmp_path):
    stall_clock = StallClock(tmp_path / "nowhere")

    stall_clock.tick(100.0, ALIVE)

    assert stall_clock.moved() is None


@pytest.mark.parametrize(
    ("durations", "usual"),
    [
        ([], None),
        ([500_000_000] * 100, 1.5 * 2**28 / 1e9),
        ([1_000_000] * 1000 + [10**10] * 3, 1.5 * 2**19 / 1e9),
        ([10**10], 10.0),
    ],
    ids=["never", "all alike", "a few outliers", "once"],
)
def test_what_is_usual_is_the_99th_percentile_that_the_report_tells(tmp_path, main, durations, usual):
    slot = main.total_slot(Kind.WAIT, 1)
    for duration in durations:
        main.total(slot, duration)

    path = tmp_path / f"node.1.{MAIN}.77.rec"
    board = Board(path)

    assert board.usual(Kind.WAIT, 1) == usual
    assert board.usual(Kind.WAIT, 2) is None
    assert Facts(Recording(path), 0.0).timing(Kind.WAIT, 1).p99 == (usual or 0.0)


def test_live_words_as_old_as_the_copy_count_for_everybody_who_reads_them(tmp_path, main):
    slot, now = main.board_slot(Kind.LOADER, 1), clock()
    main.board(slot, Kind.ITERATOR, 1, now, 3, 2, 40, 5)
    main.words[(slot >> 3) + f.L_ONE], main.words[(slot >> 3) + f.L_TWO] = 44, 6
    main.words[(slot >> 3) + f.L_PHASE] = now << 2 | f.LOADER_BODY

    path = tmp_path / f"node.1.{MAIN}.77.rec"
    entry = Entry(Kind.BODY, 1, now, 7, 2, 44, 6, "")

    assert (
        Recording(path).board() == Tail(str(path), (Kind.WAIT,), (Kind.EXIT,)).board() == Board(path).board() == [entry]
    )
    assert Board(path).newest() == (Kind.BODY, 1, now)


def test_a_stall_is_measured_by_what_the_process_turned_to_last(stall_clock, main):
    main.total(main.total_slot(Kind.BODY, 1), 3 * 10**9)
    turn_to(main, Kind.WAIT)
    turn_to(main, Kind.BODY)
    stall_clock.tick(110.0, ALIVE)

    stall = stall_clock.stall(120.0, 0.0, 60.0)

    assert (stall.doing, stall.usual) == ("in the loop's body", 3.0)
    assert limit(stall) == 30.0


def save(recorder):
    recorder.board(recorder.board_slot(Kind.SAVE, 1), Kind.SAVE, 1, clock())


HAPPENS = {
    "nothing": (lambda _: None, True),
    "a checkpoint is saved": (save, True),
    "a loader is made": (lambda recorder: turn_to(recorder, Kind.LOADER), False),
    "a step": (step, False),
}  # fmt: skip


@pytest.mark.parametrize(("happens", "blind"), HAPPENS.values(), ids=HAPPENS)
def test_a_recording_without_loader_and_steps_tells_no_progress(stall_clock, main, happens, blind):
    happens(main)
    stall_clock.tick(101.0, ALIVE)

    assert stall_clock.stall(120.0, 120.0, 60.0).blind is blind


def test_a_run_whose_recording_tells_no_progress_is_looked_at_for_as_long_as_it_lives(tmp_path):
    stalls = Stalls(tmp_path, tmp_path, 1, Options(), lambda *_: None, lambda _: None)
    due = {True: [], False: []}
    for blind, found in due.items():
        for stalls._looked in range(12):
            found.append(stalls._due(Stall(None, 1, 0.0, 0.0, blind=blind)))

    assert due[False][:6] == [10.0, 60.0, 300.0, 900.0, 3600.0, None]
    assert due[True][:4] == [10.0, 20.0, 40.0, 60.0]
    assert None not in due[True]
    assert due[True] == sorted(due[True])


def test_what_was_never_done_before_is_looked_into_after_the_least_time():
    assert limit(Stall(rank=None, pid=1, since=0.0, seconds=0.0)) == LEAST


@pytest.mark.scenario
def test_the_clock_of_a_real_training_runs_while_it_stands_and_starts_anew_when_it_goes_on(tmp_path):
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    with place_at(tmp_path) as place:
        place.variables |= environment(tmp_path, recordings, os.getpid())
        steps = TRAINING.replace('        print("batch"', '        time.sleep(0.3)\n        print("batch"')
        running = place.start(sys.executable, place.write(f"import time\n{steps}"), place.fifo)
        stall_clock = StallClock(recordings)

        def stands():
            alive = set(place.processes())
            names = {name for file in os.listdir(recordings) if (name := recording_name(file)) is not None}
            stall_clock.tick(time.monotonic(), {name for name in names if name.pid in alive})
            stall = stall_clock.stall(time.monotonic(), 0.0, 60.0)
            return stall if stall is not None and stall.seconds > 3 and "batch 4" in place.out else None

        stall = wait_for(stands)
        place.let_go()
        since = stall_clock.moved()
        running.wait(timeout=120)
        names = map(recording_name, os.listdir(recordings))
        stall_clock.tick(time.monotonic(), {name for name in names if name and name.pid == running.pid})

    assert (stall.pid, stall.doing) == (running.pid, "waiting for data")
    assert stall.usual is not None
    assert stall_clock.moved() > since
