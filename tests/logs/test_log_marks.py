"""The marks of epochs in the log: which passes train, which validate, and in which order that is said."""

from __future__ import annotations

from unstuck.inside.format import MODE_BITS, MODE_EVAL, MODE_NO_GRAD, Kind
from unstuck.logs.files import Settings
from unstuck.logs.loaders import KnownLoader
from unstuck.logs.passes import PassLines
from unstuck.recordings.decoder import Entry, Record
from unstuck.recordings.passes import Passes

SECOND = 1_000_000_000


class Clock:
    """Seconds of a recording that was opened at 0."""

    def seconds(self, moment):
        return moment / SECOND

    def moment(self, seconds):
        return int(seconds * SECOND)


class Run:
    """Passes of two loaders, played through the account and its lines."""

    def __init__(self):
        self.passes = Passes(0)
        self.marks = PassLines(Clock(), Settings(every=10, validation_every=5), {1: KnownLoader(1), 2: KnownLoader(2)})
        self.marks.name = "[Rank 0]"
        self.steps = {1: 0, 2: 0}
        self.count = {1: 0, 2: 0}
        self.batches_of = {1: 0, 2: 0}
        self.names = {}
        self.lines = []

    def record(self, kind, key, at, a=0, b=0, c=0, duration=0):
        return Record(kind, key, int(at * SECOND), int(duration * SECOND), a, b, c)

    def begins(self, number, at, modes=0):
        self.count[number] += 1
        steps = self.steps[number] << MODE_BITS | modes
        return self.passes.iterator(self.record(Kind.ITERATOR, number, at, self.count[number], 0, steps))

    def ends(self, one, at, *, left=False):
        number = one.loader.number
        if left:
            self.passes.shutdown(self.record(Kind.SHUTDOWN, number, at, one.number))
            self.passes.confirm_left()
        else:
            record = self.record(Kind.PASS_END, number, at, one.batches, one.number, self.steps[number])
            self.passes.pass_end(record)

    def batches(self, one, count, begin):
        for number in range(count):
            record = self.record(Kind.WAIT, one.loader.number, begin + number, number, one.number)
            self.marks.batch(self.passes.batch(record), number)
        self.batches_of[one.loader.number] += count

    def named(self, name, at, *, ends=False, number=0):
        begun = self.names.setdefault(name, at)
        self.passes.phase(self.record(Kind.PHASE, 9, begun, not ends, number, 0, at - begun), name)

    def look(self, now, **steps):
        for number, count in steps.items():
            self.steps[int(number[1:])] = count
        board = [
            Entry(Kind.WAIT, number, 0, 0, self.count[number], self.batches_of[number], self.steps[number], "")
            for number in self.count
        ]
        self.passes.look(board)
        self.lines += self.marks.of(self.passes, now)

    def texts(self):
        texts = [one.text.removeprefix("[Rank 0] ").replace("=", "").strip() for one in self.lines]
        return [text.removesuffix(" (loader 1)").removesuffix(" (loader 2)") for text in texts]

    def marked(self):
        return [" ".join(text.split()[:4]) for text in self.texts() if text.startswith("EPOCH")]


def test_a_pass_with_an_optimizer_step_trains_and_one_without_validates():
    run = Run()
    train = run.begins(1, 0.0)
    run.batches(train, 10, 1.0)
    run.look(2.0, l1=0)
    assert run.texts() == []  # not known yet
    run.look(3.0, l1=4)
    run.ends(train, 11.0)
    validation = run.begins(2, 12.0)
    run.batches(validation, 6, 12.5)
    run.ends(validation, 20.0)
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
    run.ends(check, 9.0, left=True)
    inner = run.begins(2, 9.0)
    run.ends(inner, 10.0)
    run.ends(train, 11.0)
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
        run.steps[1] = number  # it was taken meanwhile
        run.ends(run.begins(1, float(number)), number + 0.1, left=True)
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


def test_gradients_that_are_off_mark_a_validation_at_once():
    run = Run()
    train = run.begins(1, 0.0)
    run.look(1.0, l1=3)
    run.begins(2, 2.0, MODE_NO_GRAD)
    run.look(2.5)
    assert run.marked() == ["EPOCH 0 TRAINING START", "EPOCH 0 VALIDATION START"]
    assert train.kind == "training"


def test_one_loader_for_both_is_marked_by_pass():
    run = Run()
    for epoch in range(2):
        train = run.begins(1, 10.0 * epoch)
        run.batches(train, 4, 10.0 * epoch)
        run.look(10.0 * epoch + 1, l1=4 * (epoch + 1))
        run.ends(train, 10.0 * epoch + 4)
        validation = run.begins(1, 10.0 * epoch + 5)
        run.batches(validation, 4, 10.0 * epoch + 5)
        run.look(10.0 * epoch + 6)
        run.ends(validation, 10.0 * epoch + 9)
        run.look(10.0 * epoch + 9.5)
    kinds = ["TRAINING START", "TRAINING END", "VALIDATION START", "VALIDATION END"]
    assert run.marked() == [f"EPOCH {epoch} {kind}" for epoch in (0, 1) for kind in kinds]


def test_an_evaluated_model_that_is_trained_is_no_validation():
    """With parts of it frozen: what counts are the steps, and it is waited for them."""
    run = Run()
    train = run.begins(1, 0.0)
    run.look(4.0, l1=4)
    run.ends(train, 5.0)
    frozen = run.begins(1, 10.0, MODE_EVAL)
    run.batches(frozen, 2, 10.0)
    run.look(11.0)
    assert len(run.marked()) == 2
    run.look(12.0, l1=6)
    assert run.marked()[-1] == "EPOCH 1 TRAINING START"


def test_what_the_user_names_is_marked_at_once_and_takes_passes_in():
    run = Run()
    run.named("val", 1.0)
    inner = run.begins(2, 1.5)
    run.batches(inner, 6, 2.0)
    run.look(2.0)
    assert run.marked() == ["EPOCH 0 VALIDATION START"]
    run.ends(inner, 8.0)
    run.named("val", 9.0, ends=True)
    run.named("drawing", 10.0)
    run.look(11.0)
    assert [text for text in run.texts() if text.startswith("V")] == ["Validation step 0", "Validation step 5"]
    assert run.marked()[1:] == ["EPOCH 0 VALIDATION END", "EPOCH 0 DRAWING START"]
    assert "6 batches in 8 s" in run.texts()[-2]


def test_a_pause_between_two_marks_is_told():
    run = Run()
    train = run.begins(1, 0.0)
    run.look(4.0, l1=4)
    run.ends(train, 5.0)
    validation = run.begins(2, 5.5, MODE_NO_GRAD)
    run.look(6.0)
    assert "after" not in run.texts()[-1]
    run.ends(validation, 7.0)
    run.begins(1, 12.0)
    run.look(13.0, l1=6)
    assert run.texts()[-1].endswith("START  5 s after the mark before")


def test_an_epoch_that_was_taken_for_another_begins_once_more():
    """One loader for both, and a first step that takes longer than it is waited for."""
    run = Run()
    train = run.begins(1, 0.0)
    run.look(1.0, l1=4)
    run.ends(train, 5.0)
    validation = run.begins(1, 6.0)
    run.batches(validation, 4, 6.0)
    run.ends(validation, 10.0)
    run.look(11.0)
    run.begins(1, 12.0)
    run.look(23.0)
    assert run.marked()[-1] == "EPOCH 0 START no"
    run.look(30.0, l1=5)
    assert run.texts()[-1] == "EPOCH 1 TRAINING START  not EPOCH 0, as it seemed"


def test_a_mark_says_what_was_known_when_it_came():
    """Of marks that are told together, those before the first training know of no step."""
    run = Run()
    check = run.begins(2, 0.0, MODE_NO_GRAD)
    run.ends(check, 1.0)
    train = run.begins(1, 2.0)
    run.look(3.0, l1=3)
    run.ends(train, 4.0)
    run.ends(run.begins(2, 5.0, MODE_NO_GRAD), 6.0)
    run.look(7.0, l1=3)
    ends = [text for text in run.texts() if "VALIDATION END" in text]
    assert ["no optimizer step was seen so far" in text for text in ends] == [True, False]
