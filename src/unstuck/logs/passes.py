"""Lines about passes and epochs: their beginning and end in the order of time, and how far each pass has come.

What a pass is and which epoch it belongs to, `recordings/passes.py` says, for the verdict as well.
"""

from __future__ import annotations

from ..evidence.epochs import UNKNOWN, VALIDATION
from ..recordings.passes import PATIENCE, Mark, Pass, Passes
from ..recordings.tail import Tail
from ..wording.text import duration, many, percent
from .files import DEBUG, INFO, Line, Settings
from .loaders import KnownLoader

RULE = "=" * 10
PAUSE = 1.0  # seconds between the end of one and the beginning of the next that are worth a word
LOSS_WITHIN = 2.0  # seconds for which a batch's line waits for its loss
HELD = 4096  # batches of one pass whose lines wait to learn what they are about


class Due:
    """A batch that a line may be due for."""

    def __init__(self, at: float, number: int) -> None:
        self.at, self.number = at, number
        self.loss: float | None = None  # it comes a moment after the batch


class PassLines:
    """Those of one rank."""

    def __init__(self, tail: Tail, settings: Settings, loaders: dict[int, KnownLoader]) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._settings = settings
        self._loaders = loaders
        self._held: dict[Pass, list[Due]] = {}
        self._marked: float | None = None  # when the newest mark was, if it ended what there was

    def of(self, passes: Passes, now: float, *, final: bool = False) -> list[Line]:
        """The marks that are due, and the batches of passes that go on."""
        marks = passes.decide(self._tail.moment(now), final=final)
        lines = [line for mark in marks for line in (self._end(mark) if mark.ends else [self._start(mark)])]
        marked = [one for one in passes.open if (one.around or one).counted is not None]
        return lines + [line for one in marked for line in self._progress(one, now)]

    def batch(self, passed: Pass, number: int) -> None:
        """A batch has come. Whether a line is due depends on what kind of pass it is."""
        due = (number + 1) % self._settings.every == 0 or number % self._settings.validation_every == 0
        held = self._held.setdefault(passed, []) if due else []
        if due and len(held) < HELD:
            held.append(Due(self._tail.seconds(passed.newest), number))

    def loss(self, passed: Pass, value: float) -> None:
        """A loss was told while this pass was on: it is that of its newest batch."""
        held = self._held.get(passed)
        if held and held[-1].number == passed.batches - 1:
            held[-1].loss = value

    def _start(self, mark: Mark) -> Line:
        at, one = self._tail.seconds(mark.at), mark.of
        if mark.instead is not None:
            return Line(
                at, INFO, "epoch", self._mark(one, "START", f" not EPOCH {mark.instead}, as it seemed"), key=True
            )
        waited = duration(PATIENCE / 1e9)
        more = "" if one.kind else f" no optimizer step within {waited}: it may train or validate"
        if self._marked is not None and at - self._marked >= PAUSE:
            more += f" {duration(at - self._marked)} after the mark before"
        self._marked = None
        return Line(at, INFO, "epoch", self._mark(one, "START", more), key=True)

    def _end(self, mark: Mark) -> list[Line]:
        at, one = self._tail.seconds(mark.at), mark.of
        progress = self._progress(one)
        self._held.pop(one, None)
        if one.around is not None:
            return progress
        lasted = duration(max(mark.at - one.begun, 0) / 1e9)
        parts = [
            f"{many(one.batches, 'batch')} in {lasted}" if one.batches or one.name is None else lasted,
            _speed(one),
        ]
        if one.left and one.name is None:
            length = self._length(one)
            of = f" of {length:,}" if length else ""
            since = duration(max(mark.at - one.newest, 0) / 1e9)
            parts[0] = f"left after {one.batches:,}{of} batches, the newest {since} before"
        if one.kind in (VALIDATION, UNKNOWN) and not mark.trained:
            parts.append("no optimizer step was seen so far")
        more = " " + ", ".join(part for part in parts if part)
        self._marked = at
        return [*progress, Line(at, INFO, "epoch", self._mark(one, "END", more), key=True)]

    def _mark(self, one: Pass, what: str, more: str) -> str:
        kind = f"{one.kind.upper()} " if one.kind else ""
        return f"{self.name} {RULE} EPOCH {one.epoch} {kind}{what} {RULE}{more}{self._label(one)}"

    def _progress(self, one: Pass, now: float | None = None) -> list[Line]:
        """Lines of the batches so far, once it is known what they are. The newest one's loss is waited for a while."""
        known = self._held.get(one)
        if one.kind is None or not known:
            return []
        recent = [due for due in known[-1:] if now is not None and due.loss is None and now - due.at < LOSS_WITHIN]
        held, self._held[one] = known[: len(known) - len(recent)], recent
        every = self._settings.every
        if one.kind == VALIDATION:
            return [self._validated(one, due) for due in held if not due.number % self._settings.validation_every]
        return [self._processed(one, due.at, due.number + 1) for due in held if (due.number + 1) % every == 0]

    def _processed(self, one: Pass, at: float, batches: int) -> Line:
        kind = "training batches" if one.kind else "batches (no optimizer step so far)"
        length = self._length(one)
        of = f" of {length:,}" if length else ""
        text = f"{self.name} Processed {batches}{of} {kind}, {_speed(one)}{self._label(one)}"
        return Line(at, DEBUG, "loop", text, key=True)

    def _validated(self, one: Pass, due: Due) -> Line:
        value = f", loss={due.loss:.4f}" if due.loss is not None else ""
        text = f"{self.name} Validation step {due.number}{value}{self._label(one)}"
        return Line(due.at, DEBUG, "loop", text, key=True)

    def _label(self, one: Pass) -> str:
        """Which loader, where there are several."""
        several = one.name is None and len(self._loaders) > 1
        return f" (loader {one.loader.number})" if several else ""

    def _length(self, one: Pass) -> int | None:
        known = self._loaders.get(one.loader.number) if one.name is None else None
        return known.length if known is not None else None


def _speed(one: Pass) -> str:
    looped = one.waited + one.worked
    return f"waiting for data {percent(one.waited / looped)} of the time" if looped > 0 else ""
