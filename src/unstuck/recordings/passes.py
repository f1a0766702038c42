"""Which pass and which epoch a process is in: the one account of it, for the log of a run and for its verdict.

It is told what a recording holds, in the order of time: the log tells it what is new, a verdict everything at once
(`phases.py`). All times are the recording's own, in nanoseconds. It needs no numpy, as all that the log stands on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..evidence.epochs import CHECKPOINT, PREDICTION, TRAINING, UNKNOWN, VALIDATION
from ..inside.format import MODE_BITS, MODE_NO_GRAD, Kind
from .decoder import LOADER_KINDS, Entry, Record

FAR = 8  # batches without an optimizer step, where a step usually takes fewer: the pass does not train
PATIENCE = 10_000_000_000  # nanoseconds for which a pass waits to show what kind it is of
FEW = 1 << 16  # passes that may be missing between two
NOTED = 16  # passes of a loader whose end is among the notes, however long ago it was
MEANT = {
    TRAINING: ("train", "training", "fit"),
    VALIDATION: (
        "val",
        "valid",
        "validate",
        "validating",
        "validation",
        "eval",
        "evaluate",
        "evaluating",
        "evaluation",
        "test",
        "testing",
        "sanity check",
    ),
    PREDICTION: ("predict", "predicting", "prediction"),
    CHECKPOINT: ("checkpoint", "checkpointing", "save", "saving"),
}


@dataclass(eq=False)
class Loader:
    """What is known of the passes over one DataLoader."""

    number: int
    now: Pass | None = None  # the newest
    batches: int = 0  # in all, at the newest look at the board
    steps: int = 0  # optimizer steps it saw, at that look
    pass_now: int = 0  # the number of its newest pass, at that look
    steps_told: int = 0  # optimizer steps when its newest pass began or ended
    usual: dict[int, str] = field(default_factory=dict)  # what its passes were, by modes; UNKNOWN: once this, once that
    trained: int = 0  # passes that trained so far, of those that have the number of an epoch
    pace: int = 0  # optimizer steps of the newest pass that trained
    unnumbered: int = 0  # epochs since then that nobody knows of any more, or that the user named
    stretch: Pass | None = None  # the newest of these

    @property
    def trains(self) -> bool:
        return self.steps > 0 or TRAINING in self.usual.values()

    def was(self, ended: Pass) -> None:
        """A pass is over, and it is known what it was."""
        kind = ended.kind or UNKNOWN
        self.usual[ended.modes] = kind if self.usual.get(ended.modes, kind) == kind else UNKNOWN


@dataclass(eq=False)
class Pass:
    """One pass over a loader; or a stretch that the user named, which has no loader."""

    loader: Loader
    number: int  # of a stretch: how often it was named before
    begun: int
    before: int = 0  # optimizer steps of the loader when it began
    modes: int = 0
    name: str | None = None  # None: it is a pass
    kind: str | None = None  # None: not known yet
    around: Pass | None = None  # the stretch that it is a part of
    unnumbered: int = 0  # epochs of the loader before it that have no number by its account
    epoch: int = 0
    counted: str | None = None  # the kind by which it got this number; None: it has none yet
    newest_epoch: int = -1  # when it got it
    batches: int = 0
    newest: int = 0  # when its newest batch came
    samples: int = 0  # of those that this process fetched itself
    fetches: int = 0  # how many of its batches these were
    waited: int = 0
    worked: int = 0
    ended: int | None = None  # None: it goes on
    left: bool = False  # before the loader's end
    after: int | None = None  # optimizer steps of the loader when it ended; None: not known yet
    shut: int | None = None  # when its workers were ended: because it has come to its end, or was left

    @property
    def steps(self) -> int:
        """Optimizer steps in it so far, as far as they are known."""
        if self.after is not None:
            return max(self.after - self.before, 0)
        return max(self.loader.steps - self.before, 0) if self.loader.pass_now == self.number else 0


class Mark(NamedTuple):
    """The beginning or the end of something, once it is known what it is, or it was waited for long enough."""

    at: int
    of: Pass
    ends: bool
    instead: int | None = None  # it begins once more: it was taken for a part of this epoch
    trained: bool = True  # something has trained until then


class Passes:
    """Those of one process. The first whose kind is not decided holds back the marks of those after it."""

    def __init__(self, opened: int) -> None:
        """`opened`: when the recording was. A pass that was there already began then, as far as anybody knows."""
        self.loaders: dict[int, Loader] = {}
        self.open: list[Pass] = []
        self.epochs = Epochs()
        self._opened = opened
        self._named: list[Pass] = []  # that go on, the innermost last
        self._waiting: deque[Mark] = deque()
        self._shut = False  # workers of a pass were ended, and it does not show yet whether it was left

    def loader(self, number: int) -> Loader:
        return self.loaders.get(number) or self.loaders.setdefault(number, Loader(number))

    def iterator(self, record: Record) -> Pass | None:
        """A pass begins. None: it was told before."""
        now = self.loader(record.key).now
        if now is not None and (now.number, now.begun) == (record.a, record.start):
            return None
        return self._begin(record.key, record.a, record.start, record.c >> MODE_BITS, record.c & (1 << MODE_BITS) - 1)

    def batch(self, record: Record) -> Pass:
        """A batch has come."""
        loader = self.loader(record.key)
        if self._shut:
            self.confirm_left()
        now = loader.now
        if now is None or now.number != record.b:
            begun = self._opened if now is None else record.start
            now = self._begin(record.key, record.b, begun)
        now.batches, now.newest = record.a + 1, record.end
        now.worked += record.c
        now.waited += record.duration if record.a else 0
        return now

    def pass_end(self, record: Record) -> Pass | None:
        """A pass has come to its end. None: it was told before."""
        loader = self.loader(record.key)
        now = loader.now
        loader.steps_told = max(loader.steps_told, record.c)
        if now is not None and now.number == record.b and now.ended is not None:
            known = not now.left
            now.batches, now.after, now.left = record.a, record.c, False
            return None if known else now
        if now is None or now.number != record.b:
            now = self._begin(record.key, record.b, record.end)
        now.batches, now.after = record.a, record.c
        loader.pace = now.steps or loader.pace
        self._end(now, record.end, left=False)
        return now

    def shutdown(self, record: Record) -> None:
        """The workers of a pass are ended: because it has come to its end, which is told next, or was left."""
        now = self.loader(record.key).now
        if now is not None and now.number == record.a and now.ended is None and now.shut is None:
            now.shut, self._shut = record.start, True

    def confirm_left(self) -> None:
        """Passes whose workers were ended did not come to their end."""
        self._shut = False
        for one in [one for one in self.open if one.shut is not None]:
            self._end(one, one.shut or one.newest, left=True)

    def phase(self, record: Record, name: str) -> Pass | None:
        """The user says what comes now, or that it is over. None: it was told before."""
        known = next((one for one in self._named if (one.name, one.number) == (name, record.b)), None)
        if record.a:
            return self._begin_named(name, record.b, record.start) if known is None else None
        if known is None:
            known = self._begin_named(name, record.b, record.start)
        known.ended = record.end
        self._named.remove(known)
        self._waiting.append(Mark(record.end, known, ends=True))
        return known

    def look(self, board: Iterable[Entry]) -> None:
        """Batches and optimizer steps so far."""
        for entry in board:
            if entry.kind in LOADER_KINDS and entry.key in self.loaders:
                loader = self.loaders[entry.key]
                loader.batches, loader.steps, loader.pass_now = entry.c, entry.d, entry.b

    def in_hand(self, entry: Entry) -> Pass | None:
        """The pass that a loader's entry of the board is about, if nothing else tells of it: it is being set up."""
        now = self.loader(entry.key).now
        begun = None
        if entry.b and (now is None or now.number != entry.b):
            making = entry.kind == Kind.ITERATOR
            begun = now = self._begin(
                entry.key, entry.b, entry.since if making else self._opened, entry.d if making else None
            )
        if now is not None and now.number == entry.b and (now.ended is None or now.left):
            now.batches = entry.a
        return begun

    def close(self, at: int) -> None:
        """The process has ended in the middle of these. What they are is decided as of those that go on."""
        self.confirm_left()
        self._decide_kinds(at, final=True)
        for loader in self.loaders.values():
            if loader.now is not None and loader.now.ended is None:
                self._end(loader.now, at, left=True, decided=True)
        for one in reversed(self._named):
            one.ended, one.left = at, True
            self._waiting.append(Mark(at, one, ends=True))
        self._named.clear()

    def decide(self, now: int, *, final: bool = False) -> list[Mark]:
        """The marks that are due, with their kinds and epochs."""
        self._decide_kinds(now, final=final)
        found = []
        while self._waiting and self._waiting[0].of.kind is not None:
            mark = self._waiting.popleft()
            if mark.of.around is None:
                found += self._counted(mark.of)
            found.append(mark._replace(trained=self.epochs.newest >= 0))
        return found

    def _begin(self, number: int, pass_number: int, at: int, before: int | None = None, modes: int = 0) -> Pass:
        """Without `before`, its own beginning was not seen: those that are missing before it may have trained, too."""
        self.confirm_left()
        loader = self.loader(number)
        last = loader.now
        if last is not None and last.after is None and last.number == pass_number - 1 and before is not None:
            last.after = before
            if last.ended is not None and last.kind != TRAINING and last.steps > 0 and last.around is None:
                last.kind = TRAINING  # it took its step only after it was left
                loader.was(last)
                self._waiting.extend(self._counted(last) if last.counted is not None else ())
        if last is not None and last.ended is None:
            self._end(last, at, left=last.batches > 0 or last.number <= NOTED)
        if before is None:
            lost = pass_number - 1 - last.number if last is not None else 0
            before = loader.steps_told + loader.pace * min(max(lost, 0), FEW)
        loader.now = begun = Pass(loader, pass_number, at, before, modes)
        loader.steps_told = max(loader.steps_told, begun.before)
        loader.unnumbered += _lost(last, begun)
        begun.newest = at
        self.open.append(begun)
        around = self._named[-1] if self._named else None
        if around is not None and takes_in(around.kind or "", modes):
            begun.around, begun.kind = around, around.kind
            if around.kind == TRAINING and loader.stretch is not around:
                loader.unnumbered, loader.stretch = loader.unnumbered + 1, around
        else:
            begun.unnumbered, loader.unnumbered = loader.unnumbered, 0
            begun.kind = self._expected(begun)
            self._waiting.append(Mark(at, begun, ends=False))
        return begun

    def _end(self, ended: Pass, at: int, *, left: bool, decided: bool = False) -> None:
        ended.ended, ended.left = at, left
        around = ended.around
        if around is not None:
            around.batches += ended.batches
            around.waited += ended.waited
            around.worked += ended.worked
        elif not decided:
            taken_for = ended.kind if ended.kind != TRAINING else None  # without a step it has not trained after all
            ended.kind = self._known(ended) or taken_for
            if ended.kind:
                ended.loader.was(ended)
        self.open.remove(ended)
        self._waiting.append(Mark(at, ended, ends=True))

    def _begin_named(self, name: str, number: int, at: int) -> Pass:
        begun = Pass(Loader(0), number, at, name=name, kind=meant(name), newest=at)
        self._named.append(begun)
        self._waiting.append(Mark(at, begun, ends=False))
        return begun

    def _decide_kinds(self, now: int, *, final: bool) -> None:
        for one in dict.fromkeys([*(mark.of for mark in self._waiting), *self.open]):
            if one.name is not None or one.around is not None:
                continue
            if not one.kind:
                self._decide(one, now, final=final)
            elif one.kind != TRAINING and one.steps > 0:
                one.kind = TRAINING
            if one.counted is not None and one.ended is None:
                self._waiting.extend(self._counted(one))

    def _decide(self, undecided: Pass, now: int, *, final: bool) -> None:
        known = self._known(undecided) or (self._known_at_last(undecided) if final else UNKNOWN)
        if known:
            undecided.kind = known
            if undecided.ended is not None:
                undecided.loader.was(undecided)
        elif final or now - undecided.begun > PATIENCE:
            goes_on = undecided.ended is None
            undecided.kind = undecided.loader.usual.get(undecided.modes, UNKNOWN) if goes_on else UNKNOWN
            if final and not undecided.kind and undecided.modes:
                undecided.kind = VALIDATION

    def _expected(self, begun: Pass) -> str | None:
        """What it will be, as it shows at its beginning. None: that has to be waited for.

        Gradients that are off mean validation. A model that is set to evaluate may yet be trained, with parts of it
        frozen. A loader is what it was, unless it may have to serve for both.
        """
        usual = begun.loader.usual.get(begun.modes)
        if begun.modes & MODE_NO_GRAD or (begun.modes and usual is None and not begun.loader.trains):
            return VALIDATION
        both = not any(VALIDATION in loader.usual.values() for loader in self.loaders.values())
        return None if usual == TRAINING and both else usual or None

    def _known(self, seen: Pass) -> str:
        """What it is, by what has come since.

        A loop that was left may take its step only then: `next(iter(loader))` ends a pass before its batch is used.
        """
        loaders = self.loaders.values()
        left_without = seen.after is not None and not seen.loader.trains
        over = seen.ended is not None and (not seen.left or left_without)
        enough = over or any(_trains_instead(loader, seen) for loader in loaders)
        modes = seen.modes if over or not seen.loader.trains else 0  # a part of the model may be frozen
        return kind_of_pass(seen.steps, modes, enough=enough, trains=any(loader.trains for loader in loaders))

    def _known_at_last(self, seen: Pass) -> str:
        """Nothing more will show: a loader that never trained has not trained in this pass either."""
        enough = not seen.loader.trains and (seen.ended is not None or seen.batches >= FAR)
        trains = any(loader.trains for loader in self.loaders.values())
        return kind_of_pass(seen.steps, 0, enough=enough, trains=trains)

    def _counted(self, seen: Pass) -> list[Mark]:
        """Number its epoch, and number it anew if it turns out to be of another kind: then it begins once more."""
        kind, before = seen.kind or UNKNOWN, seen.epoch
        again = seen.counted is not None
        if seen.counted != kind:
            self.epochs.count(seen)
            seen.counted = kind
        return [Mark(seen.begun, seen, ends=False, instead=before)] if again and seen.epoch != before else []


def _lost(last: Pass | None, begun: Pass) -> int:
    """How many passes between these two have trained, of which nobody knows any more: as many as its steps come to."""
    if last is None:
        return begun.number - 1
    lost = begun.number - 1 - last.number + (last.after is None)
    if lost <= (last.after is None):
        return 0
    steps = begun.before - (last.before if last.after is None else last.after)
    pace = begun.loader.pace
    return min(lost, round(steps / pace) if pace else lost) if steps > 0 else 0


def _trains_instead(loader: Loader, seen: Pass) -> bool:
    """This pass was left for one that trains, or goes on without a step where there have long been some."""
    long = seen.batches >= max(FAR, 2 * loader.batches // max(loader.steps, 1))
    if loader is seen.loader:
        return bool(seen.modes) and long
    other = loader.now
    return other is not None and other.kind == TRAINING and (other.begun > seen.newest or long)


def meant(name: str) -> str:
    """What a name that the user gave stands for; itself, where it is none of these."""
    plain = name.strip().lower()
    return next((kind for kind, names in MEANT.items() if plain in names), name.strip())


def takes_in(told: str, modes: int) -> bool:
    """Whether a pass is what the user says about the stretch it lies in. Training may have a validation inside."""
    return told in (VALIDATION, PREDICTION) or (told == TRAINING and not modes)


def kind_of_pass(steps: int, modes: int, *, enough: bool, trains: bool) -> str:
    """Of a pass that nobody said anything about. An optimizer step says most, then how it began.

    `enough`: it has come to its end, or far. Without a step, in a process that has some in other passes over whichever
    loader, such a pass validates.
    """
    if steps > 0:
        return TRAINING
    if modes or (enough and trains):
        return VALIDATION
    return UNKNOWN


class Epochs:
    """Numbers them, in the order of time: a loader's by how often it trained, all else belongs to the newest."""

    def __init__(self) -> None:
        self.newest = -1

    def count(self, seen: Pass) -> None:
        """Give it its number; or another, where it turns out to be of another kind than it was taken for."""
        if seen.name is not None:
            seen.epoch = seen.number if seen.kind == TRAINING else max(self.newest, 0)
            self.newest = max(self.newest, seen.epoch) if seen.kind == TRAINING else self.newest
            return
        loader = seen.loader
        if seen.counted is None:
            seen.newest_epoch = self.newest
            loader.trained += seen.unnumbered
        elif seen.counted == TRAINING:  # it was taken for that
            loader.trained = seen.epoch
            self.newest = seen.newest_epoch if self.newest == seen.epoch else self.newest
        if seen.kind == TRAINING:
            seen.epoch = loader.trained
            loader.trained += 1
            self.newest = max(self.newest, seen.epoch)
        else:
            seen.epoch = max(self.newest, 0)
