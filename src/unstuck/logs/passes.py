"""Passes over loaders, and stretches that the user named: what the log knows of each."""

from __future__ import annotations

from ..evidence.epochs import FAR, TRAINING, UNKNOWN, VALIDATION, kind_of_pass
from ..inside.format import MODE_NO_GRAD
from ..wording.text import percent


class Loader:
    """What the log knows of one DataLoader."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.label = ""  # added to its lines where there are several of its kind
        self.length: int | None = None
        self.steps = 0  # optimizer steps it saw so far, at the newest look
        self.pass_now = 0  # the number of its newest pass, at that look
        self.usual: dict[int, str] = {}  # what its passes were, by how they begin; UNKNOWN: once this, once that
        self.batches = 0  # in all
        self.now: Pass | None = None

    def was(self, one: Pass) -> None:
        """A pass has ended, and it is known what it was."""
        kind = one.kind or UNKNOWN
        self.usual[one.modes] = kind if self.usual.get(one.modes, kind) == kind else UNKNOWN

    @property
    def trains(self) -> bool:
        return self.steps > 0 or TRAINING in self.usual.values()


class Due:
    """A batch that a line may be due for."""

    def __init__(self, at: float, number: int) -> None:
        self.at, self.number = at, number
        self.loss: float | None = None  # it comes a moment after the batch


class Pass:
    """One pass over a loader; or a stretch that the user named, whose loader is no real one."""

    def __init__(self, loader: Loader, number: int, begun: float, before: int = 0, modes: int = 0) -> None:
        self.loader, self.number, self.begun, self.modes = loader, number, begun, modes
        self.kind: str | None = None  # None: not known yet
        self.named = False
        self.around: Pass | None = None  # the stretch that it is a part of, and has no marks beside
        self.epoch = 0
        self.counted = ""  # as what
        self.batches = self.samples = 0
        self.fetches = 0  # batches that this process fetched itself
        self.newest = begun  # when its newest batch came
        self.waited = self.worked = 0.0
        self.ended: float | None = None
        self.left = False  # the loop was left before the loader's end
        self.before = before  # optimizer steps of the loader
        self.after: int | None = None  # None: it is not known yet how many there were at its end
        self.shut: float | None = None  # when its workers were ended; whether by its end or by leaving it shows later
        self.held: list[Due] = []

    @property
    def steps(self) -> int:
        """Optimizer steps in it so far, as far as they are known."""
        if self.after is not None:
            return self.after - self.before
        return self.loader.steps - self.before if self.loader.pass_now == self.number else 0

    def add(self, one: Pass) -> None:
        """A pass within this stretch has ended."""
        self.batches += one.batches
        self.waited += one.waited
        self.worked += one.worked

    def speed(self) -> str:
        looped = self.waited + self.worked
        return f"waiting for data {percent(self.waited / looped)} of the time" if looped > 0 else ""

    def expected(self, loaders: list[Loader]) -> str | None:
        """What it will be, as it shows at its beginning. None: that has to be waited for.

        Gradients that are off mean validation. A model that is set to evaluate may yet be trained, with parts of it
        frozen. A loader is what it was, unless it may have to serve for both.
        """
        usual = self.loader.usual.get(self.modes)
        if self.modes & MODE_NO_GRAD or (self.modes and usual is None and not self.loader.trains):
            return VALIDATION
        both = not any(VALIDATION in one.usual.values() for one in loaders)
        return None if usual == TRAINING and both else usual or None

    def known(self, loaders: list[Loader]) -> str:
        """What it is, by what has come since.

        A loop that was left may take its step only then: `next(iter(loader))` ends a pass before its batch is used.
        """
        left_without = self.after is not None and not self.loader.trains
        over = self.ended is not None and (not self.left or left_without)
        enough = over or any(_trains_instead(one, self) for one in loaders)
        late = self.modes if over or not self.loader.trains else 0  # a part of the model may be frozen
        return kind_of_pass(self.steps, late, enough=enough, trains=any(one.trains for one in loaders))


def _trains_instead(loader: Loader, one: Pass) -> bool:
    """This pass was left for one that trains, or goes on without a step where there have long been some."""
    long = one.batches >= max(FAR, 2 * loader.batches // max(loader.steps, 1))
    if loader is one.loader:
        return bool(one.modes) and long
    other = loader.now
    return other is not None and other.kind == TRAINING and (other.begun > one.newest or long)
