"""The log and the verdict of one recording agree on every pass: what it was, and which epoch it belongs to."""

from __future__ import annotations

import random

import pytest

from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import MODE_BITS, MODE_EVAL, MODE_NO_GRAD, Kind
from unstuck.logs.files import Settings
from unstuck.logs.rank import NOTES, RING, MainProcess
from unstuck.recordings.passes import Passes
from unstuck.recordings.process import process_of
from unstuck.recordings.reader import Facts, Recording
from unstuck.recordings.tail import Tail

SECOND = 1_000_000_000
LARGE = f.Layout(board=16, totals=16, ring=4096, notes=512, strings=8192, last_words=4096)
SMALL = LARGE._replace(ring=64)
NOTED = 16


class Training:
    """Writes what a training of two loaders would, by a clock of its own."""

    def __init__(self, path, layout, looks=lambda _: None):
        self.recorder = Recorder(str(path), layout)
        self.now = 100 * SECOND
        words = self.recorder.words
        words[f.H_ROLE], words[f.H_MONOTONIC], words[f.H_WALL] = f.ROLE_MAIN, self.now, self.now
        self.recorder.publish()
        self.looks, self.looked = looks, self.now
        self.passes, self.batches, self.steps = {1: 0, 2: 0}, {1: 0, 2: 0}, {1: 0, 2: 0}
        self.named = {}

    def wait(self, seconds):
        self.now += int(seconds * SECOND)
        while self.now - self.looked > SECOND:
            self.looked += SECOND
            self.looks(self.looked / 1e9)

    def show(self, loader, kind, batch):
        slot = self.recorder.board_slot(Kind.LOADER, loader)
        counts = self.passes[loader], self.batches[loader], self.steps[loader]
        self.recorder.board(slot, kind, loader, self.now, batch, *counts)

    def loop(self, loader, batches, *, trains=False, modes=0, leaves=False, workers=False, slow=0.1, inside=None):
        """One pass. A loop that is left has asked for the next batch only if somebody else uses the loader."""
        recorder = self.recorder
        self.passes[loader] += 1
        number, before = self.passes[loader], self.steps[loader] << MODE_BITS | modes
        self.show(loader, Kind.ITERATOR, 0)
        begun = self.now
        self.wait(0.05)
        recorder.event(Kind.ITERATOR, loader, begun, self.now - begun, number, 2 * workers, before)
        if number <= NOTED:
            recorder.note(Kind.ITERATOR, loader, begun, 0, number, 2 * workers, before)
        for batch in range(batches):
            asked = self.now
            self.wait(0.01)
            recorder.event(Kind.WAIT, loader, asked, self.now - asked, batch, number, int(slow * SECOND))
            self.batches[loader] += 1
            self.show(loader, Kind.BODY, batch + 1)
            self.wait(slow)
            if trains:
                self.steps[loader] += 1
                recorder.words[f.H_STEPS] += 1
                self.show(loader, Kind.BODY, batch + 1)
            if inside is not None and batch == batches // 2:
                inside()
        if not leaves:
            recorder.event(Kind.PASS_END, loader, self.now, 1000, batches, number, self.steps[loader])
            if number <= NOTED:
                recorder.note(Kind.PASS_END, loader, self.now + 1000, 0, batches, number, self.steps[loader])
            self.show(loader, Kind.PASS_END, batches)
        elif workers:
            recorder.event(Kind.SHUTDOWN, loader, self.now, SECOND // 100, number, 2)
        self.wait(0.05)

    def phase(self, name, inside):
        key, count = self.recorder.intern(name), self.named.get(name, 0)
        self.named[name] = count + 1
        begun = self.now
        self.recorder.note(Kind.PHASE, key, begun, 0, 1, count)
        self.wait(0.01)
        inside()
        self.recorder.note(Kind.PHASE, key, begun, self.now - begun, 0, count)
        self.wait(0.01)


def plain(training):
    """An epoch of training, then a validation."""
    for _ in range(4):
        training.loop(1, 20, trains=True)
        training.loop(2, 10, modes=MODE_NO_GRAD)


def with_a_sanity_check(training):
    """A bit of validation before everything, as Lightning does it, and validations in the middle of epochs."""
    training.loop(2, 2, leaves=True, workers=True)
    for _ in range(3):
        training.loop(1, 20, trains=True, inside=lambda: training.loop(2, 9))


def one_loader_for_both(training):
    for _ in range(3):
        training.loop(1, 12, trains=True)
        training.loop(1, 12)


def slow_steps(training):
    """The first step takes longer than a mark waits, with one loader for both."""
    for _ in range(3):
        training.loop(1, 3, trains=True, slow=15.0)
        training.loop(1, 12)


def left_after_every_batch(training):
    for _ in range(30):
        training.loop(1, 1, trains=True, leaves=True)
        training.wait(0.5)


def left_before_its_step(training):
    training.loop(1, 20, trains=True)
    training.loop(2, 10)
    training.loop(1, 3, leaves=True, workers=True)
    training.wait(30.0)
    training.loop(1, 20, trains=True)


def frozen(training):
    """A model that is set to evaluate, with a part of it that is trained."""
    training.loop(1, 10, trains=True)
    training.loop(2, 10, modes=MODE_EVAL)
    training.loop(1, 10, trains=True, modes=MODE_EVAL)
    training.loop(2, 10, modes=MODE_EVAL | MODE_NO_GRAD)


def named(training):
    for _ in range(2):
        training.phase("train", lambda: training.loop(1, 20, trains=True, inside=lambda: training.loop(2, 4)))
        training.phase("eval", lambda: training.loop(2, 10))
        training.phase("drawing", lambda: training.wait(2.0))
        training.loop(2, 10)


def without_steps(training):
    for _ in range(3):
        training.loop(1, 20)
        training.wait(12.0)


def without_steps_at_first(training):
    """What looked like nothing turns out to have been a validation."""
    training.loop(2, 10)
    training.wait(20.0)
    training.loop(1, 20, trains=True)
    training.loop(2, 10)
    training.loop(1, 20, trains=True)


def chance(seed):
    def play(training):
        dice = random.Random(seed)
        for _ in range(dice.randint(3, 12)):
            loader = dice.choice((1, 1, 2))
            trains = loader == 1 and dice.random() < 0.7
            modes = 0 if trains else dice.choice((0, 0, MODE_EVAL, MODE_NO_GRAD))
            workers, leaves = dice.random() < 0.5, dice.random() < 0.3
            slow = dice.choice((0.01, 0.1, 0.1, 3.0, 12.0))

            def loop(loader=loader, trains=trains, modes=modes, leaves=leaves, workers=workers, slow=slow):
                batches = dice.randint(0 if not leaves else 1, 15)
                training.loop(loader, batches, trains=trains, modes=modes, leaves=leaves, workers=workers, slow=slow)

            training.phase(dice.choice(("train", "val", "x")), loop) if dice.random() < 0.2 else loop()
            training.wait(dice.choice((0.1, 1.0, 15.0)))

    return play


TRAININGS = [
    plain, with_a_sanity_check, one_loader_for_both, slow_steps, left_after_every_batch, left_before_its_step, frozen,
    named, without_steps, without_steps_at_first,
]  # fmt: skip


class Log:
    """What the log of a recording says at the ends of passes, as it is followed."""

    def __init__(self, path, monkeypatch):
        self.marks = []
        decide = Passes.decide

        def heard(passes, now, *, final=False):
            found = decide(passes, now, final=final)
            self.marks += found
            return found

        monkeypatch.setattr(Passes, "decide", heard)
        self.main = MainProcess(Tail(str(path), RING, NOTES), Settings())
        self.main.called("[Rank 0]")
        self.lines = []

    def look(self, now, *, final=False):
        self.lines += self.main.lines(now, final=final)

    def ended(self):
        """By loader and pass, or by name: kind, epoch and optimizer steps."""
        marks = [mark.of for mark in self.marks if mark.ends and (mark.of.around is None)]
        return {_which(one): (one.kind, one.epoch, one.steps if one.name is None else 0) for one in marks}


def _which(one):
    return (one.loader.number, one.number) if one.name is None else (one.kind, one.begun)


def verdict(path):
    process = process_of(Facts(Recording(path), 0.0))
    found = {}
    for one in process.phases:
        which = (one.kind, round(one.at * 1e9)) if one.told else (one.loader, one.number_of_pass)
        found[which] = (one.kind, one.number, 0 if one.told else one.steps)
    return found


@pytest.mark.parametrize("play", [*TRAININGS, *map(chance, range(40))], ids=lambda play: play.__name__)
@pytest.mark.parametrize("every", [1, 5], ids=["every second", "seldom"])
def test_the_log_that_follows_a_run_and_the_verdict_on_it_agree(tmp_path, monkeypatch, play, every):
    """Where the log had to decide early, it may have said less, but nothing else."""
    path = tmp_path / "node.1.2.3.rec"
    training = Training(path, LARGE)
    log = Log(path, monkeypatch)
    looks = []
    training.looks = lambda now: looks.append(now) or (len(looks) % every == 0 and log.look(now))
    play(training)
    training.looks = lambda _: None
    training.wait(2.0)
    log.look(training.now / 1e9, final=True)

    said, found = log.ended(), verdict(path)

    assert said.keys() == found.keys()
    assert {which: one[1:] for which, one in said.items()} == {which: one[1:] for which, one in found.items()}
    assert [which for which in said if said[which][0] not in ("", found[which][0])] == []
    assert any(one[0] for one in found.values()) or not any(one[2] for one in found.values())


@pytest.mark.parametrize("layout", [LARGE, SMALL], ids=["whole", "overwritten"])
@pytest.mark.parametrize("play", [*TRAININGS, *map(chance, range(40))], ids=lambda play: play.__name__)
def test_a_log_that_is_written_afterwards_says_the_same_as_the_verdict(tmp_path, monkeypatch, play, layout):
    path = tmp_path / "node.1.2.3.rec"
    play(training := Training(path, layout))
    log = Log(path, monkeypatch)
    log.look(training.now / 1e9 + 100, final=True)

    said, found = log.ended(), verdict(path)

    assert said == found


def test_the_number_of_an_epoch_does_not_depend_on_how_many_passes_the_recording_still_knows(tmp_path):
    path = tmp_path / "node.1.2.3.rec"
    training = Training(path, SMALL)
    for _ in range(60):
        training.loop(1, 3, trains=True, slow=0.01)

    found = verdict(path)

    assert found[1, 60] == ("training", 59, 3)
    assert found[1, 1] == ("training", 0, 3)


def test_a_loader_counts_the_epochs_that_the_user_named_and_no_validation_by_it(tmp_path):
    path = tmp_path / "node.1.2.3.rec"
    training = Training(path, LARGE)
    training.phase("val", lambda: training.loop(1, 4))
    training.phase("train", lambda: training.loop(1, 4, trains=True))
    training.loop(1, 4, trains=True)

    found = verdict(path)

    assert [one[:2] for one in found.values()] == [("validation", 0), ("training", 0), ("training", 1)]
