"""Loaders that produce many batches at once and hand them over in a burst: a row group, a shard, a filled buffer.

Their first batch comes late, and those behind it for nothing. Who times from the first batch on counts what was made
before: eight workers with a row group each looked twice as fast as they are. So it is timed from the end of one refill
to the end of another.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import NamedTuple

LONG = 0.5  # of the longest wait: what belongs to a refill
MOSTLY = 0.5  # of all waiting: bursts between which little time goes
FEW = 2  # cycles: their scatter says nothing
UNKNOWN = 0.2  # relative noise of a single one
ROUNDS = 3  # batches of each worker between two refills, at least: fewer are the usual rounds of workers


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
    apart = len(ends) > 0 and len(waits) / len(ends) >= ROUNDS * each
    return Refills(mostly and apart, ends)


def whole_cycles(waits: list[float], workers: int) -> list[int]:
    """The numbers of batches with which refills end, two at least; none where it does not come in bursts."""
    found = refills(waits, workers)
    return found.ends if found.bursty and len(found.ends) > 1 else []


def noise(ends: list[int], stamps: list[float], sizes: list[int]) -> float:
    """Relative standard error of the rate from the first end to the last: by what one cycle differs from another."""
    pace = [(stamps[after] - stamps[at]) / max(sum(sizes[at + 1 : after + 1]), 1) for at, after in pairwise(ends)]
    scatter = statistics.stdev(pace) / statistics.fmean(pace) if len(pace) > FEW else UNKNOWN
    return scatter / math.sqrt(len(pace))
