"""Places in code, times, and numbers that are safe to count up to."""

from __future__ import annotations

from typing import Annotated

import msgspec

# A line of code.


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of code."""

    file: str
    line: int = 0
    function: str = ""


# How long something took, over all the times it was done.


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Durations of one kind of event, all of them, in seconds."""

    count: int = 0
    total: float = 0.0
    longest: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


class Slowest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item that took longest in its stage so far."""

    stage: str
    seconds: float
    item: str = ""
    index: int | None = None
    at: float = 0.0


# Numbers that are counted up to: a damaged or forged one must not make anything count for hours.
# Ranks, workers, samples of a batch. Whatever is decoded from a file is held to it.
Ordinal = Annotated[int, msgspec.Meta(ge=-(1 << 24), le=1 << 24)]  # torch says -1 for "not told"
