"""Following a recording while it is written, and the marks that come of it."""

from __future__ import annotations

import pytest

from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import Kind
from unstuck.logs.files import Settings
from unstuck.logs.rank import NOTES, RING, MainProcess
from unstuck.logs.training import Losses
from unstuck.recordings.tail import Tail

SMALL = f.Layout(board=16, totals=16, ring=256, notes=64, strings=4096, last_words=4096)
SECOND = 1_000_000_000


@pytest.fixture
def written(tmp_path):
    """A recording that this test writes, and somebody who follows it."""
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), SMALL)
    recorder.words[f.H_ROLE] = f.ROLE_MAIN
    recorder.publish()
    return recorder, Tail(recorder.path, RING, NOTES)


def batches(records):
    return [one.a for one in records if one.kind == Kind.WAIT]


def test_only_what_is_new_is_read(written):
    recorder, tail = written
    for number in range(100):
        recorder.event(Kind.WAIT, 1, number, 1, number, 1)
    assert batches(tail.ring.new()) == list(range(100))
    assert tail.ring.new() == []
    for number in range(100, 350):  # past the ring's end
        recorder.event(Kind.WAIT, 1, number, 1, number, 1)
    assert batches(tail.ring.new()) == list(range(100, 350))
    assert tail.ring.missed == 0


def test_kinds_that_nobody_wants_are_passed_over(written):
    recorder, tail = written
    for number in range(200):
        recorder.event(Kind.SAMPLE if number % 10 else Kind.PASS_END, 1, number, 1)
    assert len(tail.ring.new()) == 20


def test_events_that_were_overwritten_are_counted_and_none_is_made_up(written):
    recorder, tail = written
    for number in range(1000):
        recorder.event(Kind.WAIT, 1, number, 1, number, 1)
    found = batches(tail.ring.new())
    assert found == list(range(1000 - len(found), 1000))
    assert len(found) > 200
    assert tail.ring.missed == 1000 - len(found)
    recorder.event(Kind.WAIT, 1, 5, 1, 1000, 1)
    assert batches(tail.ring.new()) == [1000]


def test_a_record_that_is_being_written_waits(written):
    recorder, tail = written
    recorder.event(Kind.WAIT, 1, 1, 1, 7, 1)
    recorder.event(Kind.WAIT, 1, 1, 1, 8, 1)
    second = recorder.ring + 2 * f.RING_WORDS
    recorder.words[second] = 0  # as it is while its words are stored
    assert batches(tail.ring.new()) == [7]
    recorder.words[second] = 2
    assert batches(tail.ring.new()) == [8]


def test_a_recording_that_is_not_filled_in_yet_is_refused(tmp_path):
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), SMALL)
    with pytest.raises(ValueError):
        Tail(recorder.path, RING, NOTES)


def test_missing_events_are_said_in_the_log(written):
    recorder, tail = written
    main = MainProcess(tail, Settings())
    main.called("[Rank 0]")
    for number in range(1000):
        recorder.event(Kind.WAIT, 1, number, 1, number, 1)
    texts = [one.text for one in main.lines(10.0, final=True)]
    assert any("events were overwritten before they could be read" in text for text in texts)


def test_a_loss_is_written_at_first_every_so_many_steps_and_when_it_is_rare():
    losses = Losses(Settings(every=100))
    steps = [step for step in range(0, 401, 50) if losses.told("[Rank 0]", step / 100, "loss", 0.5, step)]
    assert steps == [0, 100, 200, 300, 400]
    (line,) = losses.told("[Rank 0]", 60.0, "loss", 0.25, 401)
    assert line.text == "[Rank 0] Training step 401, loss=0.2500"
    (line,) = losses.told("[Rank 0]", 60.0, "Loss/train", 0.25, 7)
    assert line.text == "[Rank 0] Training step 7, loss=0.2500 (Loss/train)"


def test_a_loss_that_is_no_number_is_a_warning_once():
    losses = Losses(Settings())
    levels = [one.level for step in range(3) for one in losses.told("[Rank 0]", 0.0, "loss", float("nan"), step)]
    assert levels == ["WARNING", "DEBUG"]


def test_a_total_is_not_made_up_where_events_are_missing(written):
    recorder, tail = written
    main = MainProcess(tail, Settings())
    main.called("[Rank 0]")
    recorder.event(Kind.ITERATOR, 1, 1, 1, 1, 0)
    for number in range(3):
        recorder.event(Kind.FETCH, 1, 10 + number, 1, 4, 0, number)
    recorder.event(Kind.PASS_END, 1, 20, 1, 5, 1)
    texts = [one.text for one in main.lines(10.0, final=True)]
    assert "[Rank 0] COMPLETED iteration, total samples: unknown, 12 seen (events are missing)" in texts
