"""Following a recording while it is written, and the marks that come of it."""

from __future__ import annotations

import pytest

from unstuck.inside import format as f
from unstuck.inside.format import Kind
from unstuck.inside.recorder import Recorder
from unstuck.logs.losses import Losses
from unstuck.logs.main_process import NOTES, RING, MainProcess
from unstuck.logs.passes import Loader, Marks, Pass
from unstuck.logs.settings import Settings
from unstuck.logs.tail import Tail

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


class Run:
    """Passes of two loaders, played through the marks."""

    def __init__(self):
        self.marks = Marks("[Rank 0]", Settings(every=10, validation_every=5))
        self.loaders = {number: Loader(number) for number in (1, 2)}
        self.lines = []

    def begins(self, number, at):
        one = Pass(self.loaders[number], 1, at)
        self.loaders[number].now = one
        self.marks.begins(one)
        return one

    def batches(self, one, count, begin):
        for number in range(count):
            one.batches, one.newest = number + 1, begin + number
            self.marks.batch(one, begin + number, number)
        one.loader.batches += count

    def look(self, now, **steps):
        for number, count in steps.items():
            self.loaders[int(number[1:])].steps = count
        self.lines += self.marks.decide(self.loaders, now)
        for loader in self.loaders.values():
            loader.steps_before = (loader.steps_before[1], loader.steps)

    def texts(self):
        return [one.text.removeprefix("[Rank 0] ").replace("=", "").strip() for one in self.lines]

    def marked(self):
        return [" ".join(text.split()[:4]) for text in self.texts() if text.startswith("EPOCH")]


def test_a_pass_with_an_optimizer_step_trains_and_one_without_validates():
    run = Run()
    train = run.begins(1, 0.0)
    run.batches(train, 10, 1.0)
    run.look(2.0, l1=0)
    assert run.texts() == []  # not known yet
    run.look(3.0, l1=4)
    run.marks.ends(train, 11.0, left=False)
    validation = run.begins(2, 12.0)
    run.batches(validation, 6, 12.5)
    run.marks.ends(validation, 20.0, left=False)
    run.look(21.0, l1=10)
    assert run.marked() == [
        "EPOCH 0 TRAINING START", "EPOCH 0 TRAINING END", "EPOCH 0 VALIDATION START", "EPOCH 0 VALIDATION END",
    ]  # fmt: skip
    assert [text for text in run.texts() if "step" in text] == ["Validation step 0", "Validation step 5"]


def test_marks_come_in_the_order_of_their_times():
    """Validation within a training epoch, as Lightning does it, with a check before everything."""
    run = Run()
    check = run.begins(2, 0.0)
    run.batches(check, 2, 0.1)
    train = run.begins(1, 5.0)  # the check was left
    run.batches(train, 5, 5.5)
    run.look(8.0, l1=3)
    run.marks.ends(check, 9.0, left=True)
    inner = run.begins(2, 9.0)
    run.marks.ends(inner, 10.0, left=False)
    run.marks.ends(train, 11.0, left=False)
    run.look(12.0, l1=5)
    times = [one.at for one in run.lines if "EPOCH" in one.text]
    assert times == sorted(times)
    assert run.marked()[:2] == ["EPOCH 0 VALIDATION START", "EPOCH 0 TRAINING START"]
    assert run.marked()[-3:] == ["EPOCH 0 VALIDATION START", "EPOCH 0 VALIDATION END", "EPOCH 0 TRAINING END"]


def test_a_pass_that_gets_nowhere_is_marked_before_it_is_known_what_it_is():
    run = Run()
    run.begins(1, 100.0)
    run.look(105.0)
    assert run.lines == []
    run.look(111.0)
    (line,) = run.lines
    assert line.at == 100.0
    assert "EPOCH 0 START" in line.text
    assert "it may train or validate" in line.text


def test_a_loader_that_is_left_after_every_batch_trains():
    """`next(iter(loader))`: the pass is over before its batch is used."""
    run = Run()
    for number in range(4):
        run.begins(1, float(number))
        run.marks.ends(run.loaders[1].now, number + 0.1, left=True)
        run.look(number + 0.5, l1=number)
    run.look(5.0, l1=4)
    assert set(run.marked()) == {f"EPOCH {n} TRAINING {mark}" for n in range(4) for mark in ("START", "END")}


def test_a_long_validation_is_known_before_it_ends():
    run = Run()
    train = run.begins(1, 0.0)
    run.batches(train, 20, 0.0)
    run.look(1.0, l1=10)  # two batches a step
    validation = run.begins(2, 30.0)
    run.batches(validation, 7, 30.0)
    run.look(37.0)
    assert "EPOCH 0 VALIDATION START" not in run.marked()
    run.batches(validation, 8, 30.0)
    run.look(38.0)
    assert run.marked()[-1] == "EPOCH 0 VALIDATION START"


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
