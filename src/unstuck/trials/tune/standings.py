"""What a search has measured so far, and what that says about settings that were not measured yet."""

from __future__ import annotations

from itertools import pairwise
from math import hypot
from typing import NamedTuple

import msgspec

from ...evidence.trial import Measured

USUAL = 2  # torch's own prefetch_factor
LEAST = 0.03  # relative: a difference that is smaller is of no use to anybody
SURE = 1.5  # standard errors of a difference that is believed
MOST = 0.25  # relative: where noise is larger than that, a gain of a quarter counts all the same
MARGIN = 0.9  # of the memory: what was measured is extrapolated, and a training needs some for itself
FULL = 0.85  # of all processors computing: another worker has nothing to compute with
FROM_DISK = 4096  # bytes a sample: a page; less is not the samples themselves


class Setting(NamedTuple):
    """Of a loader, as far as it is searched for."""

    workers: int
    prefetch: int | None = None  # None without workers
    in_order: bool = True
    context: str = ""  # "": as the loader has it
    step: float | None = None  # seconds for which each batch is kept, as a training would

    def words(self) -> str:
        parts = [f"num_workers={self.workers}"]
        parts += [f"prefetch_factor={self.prefetch}"] if self.prefetch is not None else []
        parts += [] if self.in_order else ["in_order=False"]
        parts += [self.context] if self.context else []
        return ", ".join(parts)


class Bounds(NamedTuple):
    """What may be used."""

    processors: float
    memory: int | None = None  # bytes
    shm: int | None = None
    orders: bool = True  # this torch can deliver out of order
    configured: Setting | None = None  # what the loader has now

    @property
    def most(self) -> int:
        """Workers that wait for a disk or a network are worth having beyond the processors, up to a point."""
        return max(8, int(4 * self.processors))


def setting_of(one: Measured) -> Setting:
    return Setting(one.workers, one.prefetch, one.in_order, one.context, one.step)


def tolerance(one: Measured, other: Measured) -> float:
    return min(max(SURE * hypot(one.noise, other.noise), LEAST), MOST)


def reached(one: Measured) -> float:
    """At least. By the rate alone, of many that are about as fast the least certain one would come out on top."""
    return one.rate / (1 + one.noise)


def beyond(one: Measured, other: Measured) -> bool:
    """Faster, and not by chance."""
    return one.rate > other.rate * (1 + tolerance(one, other))


def merged(parts: list[Measured]) -> Measured:
    """Repetitions of one setting. Their scatter is the noise, where it is larger than each one's own."""
    last, seconds = parts[-1], sum(one.seconds for one in parts)
    if len(parts) == 1 or not seconds:
        return last
    rate = sum(one.samples for one in parts) / seconds
    apart = max(abs(one.rate / rate - 1) for one in parts) if rate else 0.0
    own = sum(one.noise**2 for one in parts) ** 0.5 / len(parts)
    return msgspec.structs.replace(
        last,
        batches=sum(one.batches for one in parts),
        samples=sum(one.samples for one in parts),
        seconds=seconds,
        rate=rate,
        noise=max(own, apart / len(parts) ** 0.5),
        start=min(one.start for one in parts),
        longest=max(one.longest for one in parts),
        memory=max(one.memory for one in parts),
        took=sum(one.took for one in parts),
        times=len(parts),
    )


class Standings:
    """Every setting with what it came to."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.order: list[Measured] = []  # as they were measured
        self.results: dict[Setting, list[Measured]] = {}
        self.stopped = ""
        self.notes: list[str] = []

    def add(self, setting: Setting, found: Measured) -> None:
        self.order.append(found)
        self.results.setdefault(setting, []).append(found)

    def forget(self, setting: Setting) -> None:
        self.results.pop(setting, None)

    def __contains__(self, setting: Setting) -> bool:
        return setting in self.results

    def of(self, setting: Setting) -> Measured | None:
        good = [one for one in self.results.get(setting, ()) if not one.failed]
        return merged(good) if good else None

    def all(self) -> list[Measured]:
        """At full speed, without a training's step between, and within memory."""
        most = self.bounds.memory
        return [one for one in self._measured() if most is None or one.memory <= most]

    def _measured(self) -> list[Measured]:
        found = [self.of(one) for one in self.results if one.step is None]
        return [one for one in found if one is not None]

    def best(self) -> Measured | None:
        return max(self.all(), key=reached, default=None)

    def line(self) -> list[Measured]:
        """By number of workers, the rest as torch has it by default."""
        found = [
            one for one in self.all() if one.workers and one.prefetch == USUAL and one.in_order and not one.context
        ]
        return sorted(found, key=lambda one: one.workers)

    def full(self, one: Measured) -> bool:
        return one.workers >= self.bounds.processors and one.processors >= FULL * self.bounds.processors

    def memory(self, setting: Setting) -> tuple[int, int] | None:
        """Predicted: all of it, and its part in shared memory. None: nothing was measured that says so."""
        known = [one for one in self._measured() if one.workers and one.memory]
        if not setting.workers or not known:
            return None
        nearest = min(known, key=lambda one: (abs(one.workers - setting.workers), -(one.prefetch or 0)))
        alone = self.of(Setting(0))
        base = min(alone.memory, nearest.memory) if alone is not None else 0
        each = max(nearest.memory - nearest.shm - base, 0) / nearest.workers
        slots = nearest.workers * (nearest.prefetch or USUAL)
        shm = nearest.shm * setting.workers * (setting.prefetch or USUAL) // slots
        return int(base + each * setting.workers + shm), shm

    def fits(self, setting: Setting) -> bool:
        """Within memory, as far as can be foretold."""
        foretold = self.memory(setting)
        if foretold is None:
            return True
        memory, shm = foretold
        bounds = self.bounds
        return (bounds.memory is None or memory <= MARGIN * bounds.memory) and (
            bounds.shm is None or shm <= MARGIN * bounds.shm
        )

    def unexplained(self) -> Setting | None:
        """That failed where all like it failed: with workers, or without. One failure among successes is a result."""
        alone, crew = Setting(0), [one for one in self.results if one.workers]
        if alone in self and self.of(alone) is None:
            return alone
        return crew[0] if crew and not any(self.of(one) for one in crew) else None

    def cold(self) -> list[Setting]:
        """Measured while data came from the disk that later came from memory: not to be compared with the others."""
        newest = [one.read / max(one.samples, 1) for one in self.order[-3:] if not one.failed]
        if not newest:
            return []
        now = sorted(newest)[len(newest) // 2]
        found = [
            (setting, parts[-1].read / max(parts[-1].samples, 1))
            for setting, parts in self.results.items()
            if setting.step is None and not parts[-1].failed
        ]
        return [setting for setting, read in found if read > FROM_DISK and read > 2 * now]

    def data(self) -> str:
        """Where the samples came from."""
        good = [one for one in self.order if not one.failed and one.samples]
        disk = [one.read / one.samples > FROM_DISK for one in good]
        if not good:
            return ""
        if not any(disk):
            return "page cache"
        return "disk" if disk[-1] else "disk first"


def potential(points: list[Measured]) -> tuple[float, int]:
    """How much faster a number between two measured ones may be than the best, and which. 0: none is worth a look.

    Throughput by workers rises ever less and then falls: between two points it lies below the lines through their
    neighbours.
    """
    best = max(range(len(points)), key=lambda number: points[number].rate)
    found = [(0.0, 0)]
    for low in (best - 1, best):
        if 0 <= low < len(points) - 1 and points[low + 1].workers - points[low].workers > 1:
            middle = (points[low].workers + points[low + 1].workers) // 2
            bound = min(_from_left(points, low, middle), _from_right(points, low + 1, middle))
            found.append((bound / points[best].rate - 1, middle))
    return max(found)


def _from_left(points: list[Measured], at: int, middle: int) -> float:
    one = points[at]
    slope = _slope(points[at - 1], one) if at else one.rate / one.workers
    return one.rate + max(slope, 0.0) * (middle - one.workers)


def _from_right(points: list[Measured], at: int, middle: int) -> float:
    if at + 1 >= len(points):
        return float("inf")
    return points[at].rate + max(-_slope(points[at], points[at + 1]), 0.0) * (points[at].workers - middle)


def _slope(left: Measured, right: Measured) -> float:
    return (right.rate - left.rate) / (right.workers - left.workers)


def gap_below(points: list[Measured], enough: float) -> int | None:
    """A number between the last that is too slow and the first that is fast enough."""
    for low, high in pairwise(points):
        if low.rate < enough <= high.rate:
            return (low.workers + high.workers) // 2 if high.workers - low.workers > 1 else None
    return None
