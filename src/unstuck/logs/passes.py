"""Passes over loaders, and which of them train: the marks at their beginning and end, in the order of their times."""

from __future__ import annotations

from ..model.phrases import duration, many, percent
from .line import DEBUG, INFO, Line
from .settings import Settings

TRAINING, VALIDATION, UNKNOWN = "TRAINING", "VALIDATION", ""
RULE = "=" * 10
PATIENCE = 10.0  # seconds for which a mark waits to learn what kind of pass it is about
SURE = 8  # batches without an optimizer step, and twice as many as a step usually takes: it does not train
LOSS_WITHIN = 2.0  # seconds for which a batch's line waits for its loss
HELD = 4096  # batches of one pass whose lines wait to learn what they are about


class Loader:
    """What the log knows of one DataLoader."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.label = ""  # added to its lines where there are several of its kind
        self.length: int | None = None
        self.steps = 0  # optimizer steps it saw so far, at the newest look
        self.steps_before: tuple[int, int] = (0, 0)  # and at the two looks before
        self.usual = UNKNOWN  # what its newest pass was
        self.batches = 0  # in all
        self.epochs = 0  # passes that trained
        self.now: Pass | None = None


class Due:
    """A batch that a line may be due for."""

    def __init__(self, at: float, number: int) -> None:
        self.at, self.number = at, number
        self.loss: float | None = None  # it comes a moment after the batch


class Pass:
    """One pass over a loader."""

    def __init__(self, loader: Loader, number: int, begun: float) -> None:
        self.loader, self.number, self.begun = loader, number, begun
        self.kind: str | None = None  # None: not known yet
        self.epoch = 0
        self.counted = ""  # as what
        self.batches = self.samples = 0
        self.fetches = 0  # batches that this process fetched itself
        self.newest = begun  # when its newest batch came
        self.waited = self.worked = 0.0
        self.ended: float | None = None
        self.left = False  # the loop was left before the loader's end
        # Before it. Events are read a moment late: the look before the last is surely older than its first step.
        self.steps = loader.steps_before[0]
        self.shut: float | None = None  # when its workers were ended; whether by its end or by leaving it shows later
        self.held: list[Due] = []

    def speed(self) -> str:
        looped = self.waited + self.worked
        return f"waiting for data {percent(self.waited / looped)} of the time" if looped > 0 else ""


class Marks:
    """Start and end marks of one rank. The first that is not decided holds back those after it."""

    def __init__(self, rank: str, settings: Settings) -> None:
        self.rank = rank
        self.epoch = -1  # of the newest training pass
        self._settings = settings
        self._waiting: list[tuple[float, Pass, bool]] = []  # time, pass, whether it is the end
        self.open: list[Pass] = []

    def begins(self, one: Pass) -> None:
        self._waiting.append((one.begun, one, False))
        self.open.append(one)
        one.kind = one.loader.usual or None  # as the one before: so it shows at once, and mostly it is right

    def ends(self, one: Pass, at: float, *, left: bool) -> None:
        one.ended, one.left = at, left
        if one.loader.steps > one.steps:
            one.loader.usual = TRAINING  # whatever it was taken for
        self._waiting.append((at, one, True))
        self.open.remove(one)

    def decide(self, loaders: dict[int, Loader], now: float, *, final: bool = False) -> list[Line]:
        """After a look at the optimizer steps: what is known by now, and the marks that are due."""
        for one in dict.fromkeys([*(waiting[1] for waiting in self._waiting), *self.open]):
            if not one.kind:
                self._look_at(one, loaders, now)
                if final and not one.kind:
                    one.kind = VALIDATION
        lines: list[Line] = []
        while self._waiting and self._waiting[0][1].kind is not None:
            at, one, end = self._waiting.pop(0)
            lines += self._end(at, one) if end else [self._start(at, one)]
        return lines + [line for one in self.open if one.counted for line in self.progress(one, now)]

    def _look_at(self, one: Pass, loaders: dict[int, Loader], now: float) -> None:
        """A loop that was left may take its step only then: `next(iter(loader))` ends a pass before it is used."""
        over = one.ended is not None and (not one.left or one.loader.now is not one)
        if one.loader.steps > one.steps:
            one.kind = one.loader.usual = TRAINING
        elif over or any(_trains_instead(loader, one) for loader in loaders.values()):
            one.kind = one.loader.usual = VALIDATION
        elif now - one.begun > PATIENCE:
            one.kind = UNKNOWN

    def _count(self, one: Pass) -> None:
        """Number the epoch. Passes come here in the order of time."""
        if not one.counted:
            one.epoch = one.loader.epochs if one.kind == TRAINING else max(self.epoch, 0)
        if one.kind == TRAINING and one.counted != TRAINING:
            one.loader.epochs = one.epoch + 1
            self.epoch = max(self.epoch, one.epoch)
        one.counted = one.kind or "for now"

    def _start(self, at: float, one: Pass) -> Line:
        self._count(one)
        kind = f"{one.kind} START" if one.kind else "START"
        more = "" if one.kind else f" no optimizer step within {PATIENCE:.0f} s: it may train or validate"
        return Line(at, INFO, "epoch", self._mark(one, kind, more), key=True)

    def _end(self, at: float, one: Pass) -> list[Line]:
        self._count(one)
        parts = [f"{many(one.batches, 'batch')} in {duration(max(at - one.begun, 0))}", one.speed()]
        if one.left:
            of = f" of {one.loader.length:,}" if one.loader.length else ""
            parts[0] = f"left after {one.batches:,}{of} batches, the newest {duration(max(at - one.newest, 0))} before"
        if one.kind == VALIDATION and self.epoch < 0:
            parts.append("no optimizer step was seen so far")
        more = " " + ", ".join(part for part in parts if part)
        mark = Line(at, INFO, "epoch", self._mark(one, f"{one.kind or VALIDATION} END", more), key=True)
        return [*self.progress(one), mark]

    def _mark(self, one: Pass, what: str, more: str) -> str:
        return f"{self.rank} {RULE} EPOCH {one.epoch} {what} {RULE}{more}{one.loader.label}"

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


def _trains_instead(loader: Loader, one: Pass) -> bool:
    """This pass was left for one that trains, or goes on without a step where another loader has long had some."""
    other = loader.now
    if loader is one.loader or other is None or other.kind != TRAINING:
        return False
    return other.begun > one.newest or one.batches >= max(SURE, 2 * loader.batches // max(loader.steps, 1))
