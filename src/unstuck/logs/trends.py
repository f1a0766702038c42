"""Where a value is heading: the last ten of it against the ten before, and how fast steps follow each other."""

from __future__ import annotations

import math
from collections import deque

from ..wording.text import percent

TEN = 10
LEVEL = 0.01  # of the value before: less is no change worth a word


class Trend:
    """Of one name."""

    def __init__(self) -> None:
        self._newest: deque[tuple[float, int, float]] = deque(maxlen=2 * TEN)

    def add(self, at: float, step: int, value: float) -> None:
        if self._newest and step < self._newest[-1][1]:  # it has begun anew
            self._newest.clear()
        self._newest.append((at, step, value))

    def words(self) -> str:
        """`; 41.2 steps/s; last 10 fell by 4 % against the 10 before`. Empty as long as there are too few."""
        known = list(self._newest)
        if len(known) < 2 * TEN:
            return ""
        before, last = (sum(one[2] for one in part) / TEN for part in (known[:TEN], known[TEN:]))
        took, steps = known[-1][0] - known[0][0], known[-1][1] - known[0][1]
        speed = f"; {steps / took:.3g} steps/s" if took > 0 and steps > 0 else ""
        return f"{speed}{_change(before, last)}"


def _change(before: float, last: float) -> str:
    if not math.isfinite(before) or not math.isfinite(last) or not before:
        return ""
    change = (last - before) / abs(before)
    if abs(change) < LEVEL:
        return "; last 10 level with the 10 before"
    return f"; last 10 {'rose' if change > 0 else 'fell'} by {percent(abs(change))} against the 10 before"
