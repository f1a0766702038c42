"""Times one setting of a loader: `next()` by the clock, the warm-up left out, for as long as the figure needs."""

from __future__ import annotations

import math
import os
import statistics
import time
from typing import Any

from . import usage
from .drawing import Endless, samples_of

PRECISION = 0.02  # relative standard error that is enough
BLOCKS = 8  # into which the timed batches are cut: their scatter is the noise
SHORTEST = 0.35  # of the time that a setting may take, before precision is believed: neighbours come and go
DELIVERED = 2  # batches of each worker that belong to the warm-up: they were all begun at once
ROUNDS = 2  # batches of each worker that are timed at least: they come in bursts
FEW = 3  # timed batches: fewer say nothing
UNKNOWN = 0.5  # relative noise of a single batch, where there are too few to tell
STRETCH = 3.0  # times the time a setting may take, for batches so slow that hardly any fits


class Timed:
    """Batches that were waited for, with the step of a training between where one is given."""

    def __init__(self, loader: Any, drawn: Endless | None, workers: int, step: float | None) -> None:
        began = time.perf_counter()
        self.loader, self.drawn, self.workers, self.step = loader, drawn, workers, step
        self.largest = 0  # bytes of a batch
        self._batches = iter(loader)
        try:
            self._take(look=True)
        except StopIteration:
            raise RuntimeError("the loader gives no batch") from None
        self.start = time.perf_counter() - began
        self.pids = [one.pid for one in getattr(self._batches, "_workers", ())]

    def _take(self, *, look: bool = False) -> int:
        batch = next(self._batches)
        if look:
            self.largest = max(self.largest, usage.shipped(batch))
        if self.drawn is not None and self.drawn.sizes:
            return self.drawn.sizes.popleft()
        return samples_of(batch, self.loader)

    def warm_up(self, seconds: float) -> None:
        """Until every worker has delivered and what was begun at once is gone; slow ones once each."""
        until, taken = time.perf_counter() + seconds / 2, 1
        while taken < max(DELIVERED * self.workers, 1) and (taken < self.workers or time.perf_counter() < until):
            self._take(look=True)
            self._work()
            taken += 1

    def _is_there(self) -> bool:
        """The batch that comes next has been loaded: taking it costs time, but nobody starves. torch's own names."""
        batches = self._batches
        info, queue = getattr(batches, "_task_info", None), getattr(batches, "_data_queue", None)
        if info is None or queue is None:
            return False
        return len(info.get(getattr(batches, "_rcvd_idx", None), ())) == 2 or not queue.empty()

    def _work(self) -> None:
        if self.step:
            time.sleep(self.step)

    def run(self, seconds: float) -> dict[str, Any]:
        waits: list[float] = []
        starved = 0.0
        sizes: list[int] = []
        stamps = [time.perf_counter()]
        everyone = [os.getpid(), *self.pids]
        before = usage.counted(everyone)
        try:
            while not _enough(stamps, sizes, seconds, max(self.workers, 1)):
                there = self.step is not None and self._is_there()
                asked = time.perf_counter()
                sizes.append(self._take())
                waits.append(time.perf_counter() - asked)
                starved += 0.0 if there else waits[-1]
                self._work()
                stamps.append(time.perf_counter())
        except StopIteration:  # a stream that can be read only once
            if len(waits) < FEW:
                raise RuntimeError(f"it gave only {len(waits)} batches after those of the warm-up") from None
            del sizes[len(waits) :]
        took = stamps[-1] - stamps[0]
        after = usage.counted(everyone)
        return {
            "batches": len(waits),
            "samples": sum(sizes),
            "seconds": took,
            "rate": sum(sizes) / took,
            "noise": noise(stamps, sizes, max(self.workers, 1)) or UNKNOWN / math.sqrt(len(waits)),
            "longest": max(waits),
            "scatter": statistics.pstdev(waits) / max(statistics.fmean(waits), 1e-9),
            "starved": starved / took if self.step else None,
            "processors": (after.processors - before.processors) / took,
            "read": after.read - before.read,
        }

    def memory(self, prefetch: int | None, around: tuple[int, ...]) -> dict[str, int]:
        """As if every batch that may be waiting were there: while a training computes, they are."""
        everyone = [os.getpid(), *around, *self.pids]
        shm = self.workers * (prefetch or 0) * self.largest
        over = usage.above(self.pids, self.largest) if self.pids else 0
        found = usage.private(everyone)
        return {"memory": found + over + shm if found else 0, "shm": shm, "batch_bytes": self.largest}

    def end(self) -> None:
        del self._batches


def _enough(stamps: list[float], sizes: list[int], seconds: float, workers: int) -> bool:
    """Precise, or the time is up; looked at when every worker has delivered once more, and twice at least."""
    taken = stamps[-1] - stamps[0]
    if taken > seconds * STRETCH and (len(sizes) >= FEW or taken > seconds * STRETCH * 2):
        return bool(sizes)
    if len(sizes) < max(ROUNDS * workers, FEW) or len(sizes) % workers or taken < seconds * SHORTEST:
        return False
    if taken >= seconds:
        return True
    rounds = len(sizes) // workers
    if rounds % max((1 << rounds.bit_length()) >> 3, 1):  # four times while they double: looking takes time of its own
        return False
    found = noise(stamps, sizes, workers)
    return found is not None and found <= PRECISION


def noise(stamps: list[float], sizes: list[int], workers: int) -> float | None:
    """Relative standard error of the rate, from blocks of batches; workers deliver in rounds, so blocks are rounds."""
    each = max(len(sizes) // BLOCKS // workers * workers, min(workers, max(len(sizes) // FEW, 1)), 1)
    cuts = range(0, len(sizes) - each + 1, each)
    if len(cuts) < FEW:
        return None
    pace = [(stamps[cut + each] - stamps[cut]) / max(sum(sizes[cut : cut + each]), 1) for cut in cuts]
    return statistics.stdev(pace) / statistics.fmean(pace) / math.sqrt(len(pace))
