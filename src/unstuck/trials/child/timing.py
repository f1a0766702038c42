"""Times one setting of a loader: `next()` by the clock, the warm-up left out, for as long as the figure needs.

Some loaders produce many batches at once and hand them over in a burst: a row group, a shard, a filled buffer. Their
first batch comes late, and those behind it for nothing. Who times from the first batch on counts what was made before:
eight workers with a row group each looked twice as fast as they are. So it is timed from the end of one refill to the
end of another.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from itertools import pairwise
from typing import Any, NamedTuple

from . import usage
from .sizes import shipped
from .stand_ins import Endless, samples_of

PRECISION = 0.02  # relative standard error that is enough
BLOCKS = 8  # into which the timed batches are cut: their scatter is the noise
SHORTEST = 0.35  # of the time that a setting may take, before precision is believed: neighbours come and go
DELIVERED = 2  # batches of each worker that belong to the warm-up: they were all begun at once
ROUNDS = 2  # batches of each worker that are timed at least: they come in bursts
FEW = 3  # timed batches: fewer say nothing
UNKNOWN = 0.5  # relative noise of a single batch, where there are too few to tell
CYCLES = 2  # from refill to refill, where a loader comes in bursts
STRETCH = 3.0  # times the time a setting may take, for batches so slow that hardly any fits
LONG = 0.5  # of the longest wait: what belongs to a refill
MOSTLY = 0.5  # of all waiting: bursts between which little time goes
FEW_CYCLES = 2  # cycles: their scatter says nothing
UNKNOWN_CYCLE = 0.2  # relative noise of a single one
ROUNDS_APART = 3  # batches of each worker between two refills, at least: fewer are the usual rounds of workers


class Timed:
    """Batches that were waited for, with the step of a training between where one is given."""

    def __init__(self, loader: Any, drawn: Endless | None, workers: int, step: float | None) -> None:
        began = time.perf_counter()
        self.loader, self.drawn, self.workers, self.step = loader, drawn, workers, step
        self.largest = 0  # bytes of a batch
        self._waits: list[float] = []  # these three for every batch from the first on
        self._sizes: list[int] = []
        self._stamps: list[float] = []
        self._batches = iter(loader)
        try:
            self._take(look=True)
        except StopIteration:
            raise RuntimeError("the loader yields no batch") from None
        self.start = self._stamps[0] - began
        self.pids = [one.pid for one in getattr(self._batches, "_workers", ())]

    def _take(self, *, look: bool = False) -> None:
        asked = time.perf_counter()
        batch = next(self._batches)
        self._waits.append(time.perf_counter() - asked)
        if look:
            self.largest = max(self.largest, shipped(batch))
        drawn = self.drawn is not None and self.drawn.sizes
        self._sizes.append(drawn.popleft() if drawn else samples_of(batch, self.loader))
        if self.step and len(self._waits) > 1:
            time.sleep(self.step)
        self._stamps.append(time.perf_counter())

    def warm_up(self, seconds: float) -> None:
        """Until every worker has delivered and what was begun at once is gone; slow ones once each."""
        until, taken = time.perf_counter() + seconds / 2, 1
        while taken < max(DELIVERED * self.workers, 1) and (taken < self.workers or time.perf_counter() < until):
            self._take(look=True)
            taken += 1

    def _is_there(self) -> bool:
        """The batch that comes next has been loaded: taking it costs time, but nobody starves. torch's own names."""
        batches = self._batches
        info, queue = getattr(batches, "_task_info", None), getattr(batches, "_data_queue", None)
        if info is None or queue is None:
            return False
        return len(info.get(getattr(batches, "_rcvd_idx", None), ())) == 2 or not queue.empty()

    def run(self, seconds: float) -> dict[str, Any]:
        starved, first = 0.0, len(self._waits)
        everyone = [os.getpid(), *self.pids]
        before = usage.counted(everyone)
        try:
            while not self._enough(first, seconds):
                there = self.step is not None and self._is_there()
                self._take()
                starved += 0.0 if there else self._waits[-1]
        except StopIteration:  # a stream that can be read only once
            if len(self._waits) - first < FEW:
                some = f"it gave only {len(self._waits) - first} batches after those of the warm-up"
                raise RuntimeError(some) from None
        took, after = self._stamps[-1] - self._stamps[first - 1], usage.counted(everyone)
        return {
            **self._told(whole_cycles(self._waits, self.workers), first),
            "starved": starved / took if self.step else None,
            "processors": (after.processors - before.processors) / took,
            "read": after.read - before.read,
        }

    def _told(self, ends: list[int], first: int) -> dict[str, Any]:
        """From the `first` batch on; where it comes in bursts, from the end of one refill to the end of another."""
        start, end = (ends[0] + 1, ends[-1] + 1) if ends else (first, len(self._waits))
        waits, sizes, stamps = self._waits[start:end], self._sizes[start:end], self._stamps[start - 1 : end]
        took = stamps[-1] - stamps[0]
        return {
            "batches": len(waits),
            "samples": sum(sizes),
            "seconds": took,
            "rate": sum(sizes) / took,
            "noise": noise_of_cycles(ends, self._stamps, self._sizes) if ends else self._noise(stamps, sizes),
            "longest": max(waits),
            "scatter": statistics.pstdev(waits) / max(statistics.fmean(waits), 1e-9),
        }

    def _noise(self, stamps: list[float], sizes: list[int]) -> float:
        return noise(stamps, sizes, max(self.workers, 1)) or UNKNOWN / math.sqrt(len(sizes))

    def _enough(self, first: int, seconds: float) -> bool:
        """Precise, or the time is up; looked at when every worker has delivered once more, and twice at least.

        Not before as much time has gone as the start took: behind it may stand a burst of what was produced by then.
        """
        count, workers = len(self._sizes) - first, max(self.workers, 1)
        taken, slow = self._stamps[-1] - self._stamps[first - 1], seconds * STRETCH
        start = min(self.start, slow)
        if taken > slow and (count >= FEW or taken > slow * 2):
            return count > 0 and (taken > STRETCH * max(start, seconds) or not self._refilling())
        if count < max(ROUNDS * workers, FEW) or count % workers or taken < max(seconds * SHORTEST, start):
            return False
        if taken >= seconds:
            return not self._refilling()
        rounds = count // workers
        if rounds % max((1 << rounds.bit_length()) >> 3, 1):  # four times while they double: looking takes time
            return False
        found = noise(self._stamps[first - 1 :], self._sizes[first:], workers)
        return found is not None and found <= PRECISION and not self._refilling()

    def _refilling(self) -> bool:
        """It comes in bursts, and too few have been seen from the end of one refill to that of the next."""
        found = refills(self._waits, self.workers)
        return found.bursty and len(found.ends) <= CYCLES

    def memory(self, prefetch: int | None, around: tuple[int, ...]) -> dict[str, int]:
        """As if every batch that may be waiting were there: while a training computes, they are."""
        everyone = [os.getpid(), *around, *self.pids]
        shm = self.workers * (prefetch or 0) * self.largest
        over = usage.above(self.pids, self.largest) if self.pids else 0
        found = usage.anonymous_together(everyone)
        return {"memory": found + over + shm if found else 0, "shm": shm, "batch_bytes": self.largest}

    def end(self) -> None:
        del self._batches


def noise(stamps: list[float], sizes: list[int], workers: int) -> float | None:
    """Relative standard error of the rate, from blocks of batches; workers deliver in rounds, so blocks are rounds."""
    each = max(len(sizes) // BLOCKS // workers * workers, min(workers, max(len(sizes) // FEW, 1)), 1)
    cuts = range(0, len(sizes) - each + 1, each)
    if len(cuts) < FEW:
        return None
    pace = [(stamps[cut + each] - stamps[cut]) / max(sum(sizes[cut : cut + each]), 1) for cut in cuts]
    return statistics.stdev(pace) / statistics.fmean(pace) / math.sqrt(len(pace))


class Refills(NamedTuple):
    """Batches that were waited for, by number. The first one's wait is the start, however long it takes."""

    bursty: bool
    ends: list[int]  # of refills that are over


def refills(waits: list[float], workers: int) -> Refills:
    """`waits`: for each batch since the first. Workers that refill at the same time are one refill."""
    later, each = waits[1:], max(workers, 1)
    if not later:
        return Refills(bursty=False, ends=[])
    least = LONG * max(later)
    long = [0, *(at for at, wait in enumerate(waits) if at and wait >= least)]
    ends = [at for at, after in zip(long, [*long[1:], len(waits)], strict=True) if after - at > each]
    mostly = sum(waits[at] for at in long[1:]) >= MOSTLY * sum(later)
    apart = len(ends) > 0 and len(waits) / len(ends) >= ROUNDS_APART * each
    return Refills(mostly and apart, ends)


def whole_cycles(waits: list[float], workers: int) -> list[int]:
    """The numbers of batches with which refills end, two at least; none where it does not come in"""
    found = refills(waits, workers)
    return found.ends if found.bursty and len(found.ends) > 1 else []


def noise_of_cycles(ends: list[int], stamps: list[float], sizes: list[int]) -> float:
    """Relative standard error of the rate from the first end to the last: by what one cycle differs from another."""
    pace = [(stamps[after] - stamps[at]) / max(sum(sizes[at + 1 : after + 1]), 1) for at, after in pairwise(ends)]
    scatter = statistics.stdev(pace) / statistics.fmean(pace) if len(pace) > FEW_CYCLES else UNKNOWN_CYCLE
    return scatter / math.sqrt(len(pace))
