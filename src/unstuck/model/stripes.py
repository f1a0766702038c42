"""Waits that come in stripes: the workers of a loader run in step, and every so many batches the loop stands still."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from .recorded import Loader

TIMES = 3  # as long as those between them, on average: else waits only vary
ALIKE = 0.5  # of the usual long wait, from which on one counts as long
ROUNDS = 4  # fewer may be a coincidence
REGULAR = 0.8  # of the distances between long waits that are just the number of workers


class Stripes(NamedTuple):
    """Every so many batches, one is waited for long and the others are not: seconds, on average."""

    every: int
    long: float
    between: float


def stripes(loader: Loader) -> Stripes | None:
    """None: waits are even, or come in no order, or are too few to tell."""
    every, waits = loader.num_workers, loader.recent_waits
    if every < 2 or len(waits) < ROUNDS * every:
        return None
    # In each round one is long, if there are stripes at all: the middle one of so many is the usual long wait.
    longest = sorted(waits, reverse=True)[: len(waits) // every]
    limit = ALIKE * longest[len(longest) // 2]
    at = [number for number, wait in enumerate(waits) if wait >= limit]
    gaps = [after - before for before, after in pairwise(at)]
    if len(gaps) < ROUNDS - 1 or gaps.count(every) < REGULAR * len(gaps):
        return None
    long = sum(waits[number] for number in at) / len(at)
    between = (sum(waits) - long * len(at)) / max(len(waits) - len(at), 1)
    return Stripes(every, long, between) if long >= TIMES * between else None
