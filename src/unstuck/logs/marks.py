"""Marks at the beginning and end of each pass and of what the user named, in the order of their times."""

from __future__ import annotations

from ..evidence.epochs import TRAINING, UNKNOWN, VALIDATION, Epochs, meant, takes_in
from ..wording.text import duration, many
from .line import DEBUG, INFO, Line
from .passes import Due, Loader, Pass
from .settings import Settings

RULE = "=" * 10
PATIENCE = 10.0  # seconds for which a mark waits to learn what kind of pass it is about
PAUSE = 1.0  # seconds between the end of one and the beginning of the next that are worth a word
LOSS_WITHIN = 2.0  # seconds for which a batch's line waits for its loss
HELD = 4096  # batches of one pass whose lines wait to learn what they are about


class Marks:
    """Those of one rank. The first that is not decided holds back those after it."""

    def __init__(self, rank: str, settings: Settings, loaders: dict[int, Loader]) -> None:
        self.rank = rank
        self._settings = settings
        self._loaders = loaders
        self._epochs = Epochs()
        self._waiting: list[tuple[float, Pass, bool]] = []  # time, pass, whether it is the end
        self._named: list[Pass] = []  # that go on, the innermost last
        self._marked: float | None = None  # when the newest mark was, if it ended what there was
        self.open: list[Pass] = []

    def begins(self, one: Pass) -> None:
        self.open.append(one)
        around = self._named[-1] if self._named else None
        if around is not None and takes_in(around.kind or "", one.modes):
            one.around, one.kind = around, around.kind
        else:
            one.kind = one.expected(list(self._loaders.values()))
            self._waiting.append((one.begun, one, False))

    def ends(self, one: Pass, at: float, *, left: bool) -> None:
        one.ended, one.left = at, left
        if one.around is not None:
            one.around.add(one)
        else:
            one.kind = one.known(list(self._loaders.values())) or one.kind  # whatever it was taken for
            if one.kind:
                one.loader.was(one)
        self._waiting.append((at, one, True))
        self.open.remove(one)

    def named(self, name: str, number: int, at: float) -> None:
        """The user says what comes now."""
        one = Pass(Loader(0), number, at)
        one.kind, one.named = meant(name), True
        self._named.append(one)
        self._waiting.append((at, one, False))

    def named_ends(self, name: str, number: int, at: float) -> None:
        kind = meant(name)
        for one in [one for one in self._named if one.kind == kind and one.number == number]:
            one.ended = at
            self._named.remove(one)
            self._waiting.append((at, one, True))

    def close(self, at: float) -> None:
        """The process has ended in the middle of these."""
        for one in reversed(self._named):
            one.ended, one.left = at, True
            self._waiting.append((at, one, True))
        self._named.clear()

    def decide(self, now: float, *, final: bool = False) -> list[Line]:
        """After a look at the optimizer steps: what is known by now, and the marks that are due."""
        for one in dict.fromkeys([*(waiting[1] for waiting in self._waiting), *self.open]):
            if not one.kind:
                self._look_at(one, now, final=final)
        lines: list[Line] = []
        while self._waiting and self._waiting[0][1].kind is not None:
            at, one, end = self._waiting.pop(0)
            lines += self._end(at, one) if end else [self._start(at, one)]
        return lines + [line for one in self.open if (one.around or one).counted for line in self.progress(one, now)]

    def _look_at(self, one: Pass, now: float, *, final: bool) -> None:
        known = one.known(list(self._loaders.values()))
        if known:
            one.kind = known
            if one.ended is not None:
                one.loader.was(one)
        elif final or now - one.begun > PATIENCE:
            one.kind = one.loader.usual.get(one.modes, UNKNOWN)

    def _count(self, one: Pass) -> None:
        """Number the epoch. Passes come here in the order of time."""
        kind = one.kind or UNKNOWN
        if one.named and not one.counted:
            one.epoch = self._epochs.of_named(one.number, kind)
        elif not one.counted:
            one.epoch = self._epochs.of_pass(one.loader.number, one.number, kind)
        elif kind == TRAINING and one.counted != TRAINING and not one.named:
            self._epochs.was_training(one.loader.number, one.epoch)
        one.counted = kind or "for now"

    def _start(self, at: float, one: Pass) -> Line:
        self._count(one)
        more = "" if one.kind else f" no optimizer step within {PATIENCE:.0f} s: it may train or validate"
        if self._marked is not None and at - self._marked >= PAUSE:
            more += f" {duration(at - self._marked)} after the mark before"
        self._marked = None
        return Line(at, INFO, "epoch", self._mark(one, "START", more), key=True)

    def _end(self, at: float, one: Pass) -> list[Line]:
        if one.around is not None:
            return self.progress(one)
        self._count(one)
        lasted = duration(max(at - one.begun, 0))
        parts = [f"{many(one.batches, 'batch')} in {lasted}" if one.batches or not one.named else lasted, one.speed()]
        if one.left and not one.named:
            of = f" of {one.loader.length:,}" if one.loader.length else ""
            parts[0] = f"left after {one.batches:,}{of} batches, the newest {duration(max(at - one.newest, 0))} before"
        if one.kind in (VALIDATION, UNKNOWN) and self._epochs.newest < 0:
            parts.append("no optimizer step was seen so far")
        more = " " + ", ".join(part for part in parts if part)
        self._marked = at
        return [*self.progress(one), Line(at, INFO, "epoch", self._mark(one, "END", more), key=True)]

    def _mark(self, one: Pass, what: str, more: str) -> str:
        kind = f"{one.kind.upper()} " if one.kind else ""
        return f"{self.rank} {RULE} EPOCH {one.epoch} {kind}{what} {RULE}{more}{one.loader.label}"

    def batch(self, one: Pass, at: float, number: int) -> None:
        """A batch has come. Whether a line is due depends on what kind of pass it is."""
        due = (number + 1) % self._settings.every == 0 or number % self._settings.validation_every == 0
        if due and len(one.held) < HELD:
            one.held.append(Due(at, number))

    def loss(self, one: Pass, value: float) -> None:
        """A loss was told while this pass was on: it is that of its newest batch."""
        if one.held and one.held[-1].number == one.batches - 1:
            one.held[-1].loss = value

    def progress(self, one: Pass, now: float | None = None) -> list[Line]:
        """Lines of the batches so far, once it is known what they are. The newest one's loss is waited for a while."""
        if one.kind is None:
            return []
        recent = [due for due in one.held[-1:] if now is not None and due.loss is None and now - due.at < LOSS_WITHIN]
        held, one.held = one.held[: len(one.held) - len(recent)], recent
        every = self._settings.every
        if one.kind == VALIDATION:
            return [self._validated(one, due) for due in held if not due.number % self._settings.validation_every]
        return [self._processed(one, due.at, due.number + 1) for due in held if (due.number + 1) % every == 0]

    def _processed(self, one: Pass, at: float, batches: int) -> Line:
        kind = "training batches" if one.kind else "batches (no optimizer step so far)"
        of = f" of {one.loader.length:,}" if one.loader.length else ""
        text = f"{self.rank} Processed {batches}{of} {kind}, {one.speed()}{one.loader.label}"
        return Line(at, DEBUG, "loop", text, key=True)

    def _validated(self, one: Pass, due: Due) -> Line:
        value = f", loss={due.loss:.4f}" if due.loss is not None else ""
        text = f"{self.rank} Validation step {due.number}{value}{one.loader.label}"
        return Line(due.at, DEBUG, "loop", text, key=True)
