"""How long something took, over all the times it was done."""

from __future__ import annotations

import msgspec


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
