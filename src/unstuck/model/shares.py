"""What each rank got from the same loader: batches and optimizer steps, pass by pass."""

from __future__ import annotations

from typing import NamedTuple

from .distributed import Phase
from .parting import same
from .places import Place
from .ranks import Stand, unfinished
from .recorded import Loader, Process

BETWEEN = "between passes"
JOIN = "Join"
ROUNDED = 0.002  # seconds: times are rounded to thousandths
AFTER = 0.1  # seconds: an exception that leaves a loop ends its pass, too


class Share(NamedTuple):
    """One rank's own of a loader that all ranks have."""

    stand: Stand
    process: Process
    loader: Loader

    @property
    def rank(self) -> int:
        return self.stand.rank

    @property
    def newest(self) -> Phase | None:
        """The newest pass over it."""
        return self._own[-1] if self._own else None

    @property
    def passes(self) -> list[Phase]:
        """Those that came to their end, or were left."""
        return [one for one in self._own if one.ended is not None]

    @property
    def inside(self) -> bool:
        """It is in the middle of a pass, or was when it died."""
        newest, loader = self.newest, self.loader
        if newest is None or newest.number_of_pass != loader.passes or self.through:
            return bool(loader.passes) and not self.through
        goes_on = newest.ended is None or self._fell_out(newest.ended)
        return goes_on and not self._waits_after_loop()

    @property
    def through(self) -> bool:
        """The loader has no more in its newest pass. A trainer may still validate or save in the same epoch."""
        return self.loader.now == BETWEEN

    @property
    def left(self) -> bool:
        """It broke out of its newest pass. Without workers nobody is told, and the pass seems to go on."""
        return self.newest is not None and not self.inside and not self.through

    def _waits_after_loop(self) -> bool:
        """It waits at a line that it came to before, and never in the middle of a pass.

        Not where the loop is a trainer's: all it does before, in and after a pass, the user asked for at one line.
        """
        where, process = self.stand.where, self.process
        times = [one.at for one in process.collectives if same_line(one.where, where)]
        times += [one.at for one in process.spans if same_line(one.where, where)]
        before = [one for one in times if any(one < phase.at for phase in self._own)]
        inside = any(_covers(phase, one) for phase in self._own for one in before)
        return bool(before) and not inside and not any(map(self._came_before_batch, times))

    def _came_before_batch(self, moment: float) -> bool:
        """In the newest pass, and another batch of it came afterwards."""
        newest = self.newest
        return newest is not None and newest.at <= moment < self.loader.now_since - ROUNDED

    @property
    def _own(self) -> list[Phase]:
        return [one for one in self.process.phases if one.loader == self.loader.number]

    def in_pass(self, number: int) -> int | None:
        """Batches of that pass, also if it goes on. None: not known."""
        if number == self.loader.passes:
            return self.loader.pass_batches
        for one in self.process.phases:
            if one.loader == self.loader.number and one.number_of_pass == number:
                return one.batches
        return next((one.batches for one in self.loader.ended if one.number == number), None)

    def _fell_out(self, ended: float) -> bool:
        death, workers = self.stand.death, self.loader.shutdowns.longest  # these are ended on the way out
        return death is not None and ended >= death.at - AFTER - workers


def shared_loaders(stands: list[Stand]) -> list[list[Share]]:
    """Loaders that several ranks have: made at the same line, as the same one of those made there."""
    found: dict[tuple[str, int, int], list[Share]] = {}
    for one in stands:
        counted: dict[tuple[str, int], int] = {}
        for loader in one.process.loaders if one.process is not None else ():
            line = _line(loader)
            counted[line] = counted.get(line, 0) + 1
            if one.process is not None:
                found.setdefault((*line, counted[line]), []).append(Share(one, one.process, loader))
    return [shares for shares in found.values() if len(shares) > 1]


def joins(share: Share) -> bool:
    """Its newest pass is inside of Join, which lets ranks end at different times."""
    begun = share.newest.at if share.newest is not None else 0.0
    return any(one.name == JOIN and (one.ended is None or one.ended >= begun) for one in share.process.spans)


def together(one: Stand, other: Stand) -> bool:
    """Both wait in one and the same collective, as far as can be seen."""
    first, second = (unfinished(each.process) if each.process is not None else None for each in (one, other))
    if first is not None and second is not None:
        return first.sequence == second.sequence and same(first, second)
    return one.spot == other.spot


def same_line(one: Place | None, other: Place | None) -> bool:
    return one is not None and other is not None and (one.file, one.line) == (other.file, other.line)


def _covers(phase: Phase, moment: float) -> bool:
    return phase.at <= moment and (phase.ended is None or moment < phase.ended - ROUNDED)


def _line(loader: Loader) -> tuple[str, int]:
    if loader.created is None:
        return f"{loader.type} {loader.dataset}", 0
    return loader.created.file, loader.created.line
