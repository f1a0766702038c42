"""Time as the watcher counts it: a jump of the wall clock or a pause of the watcher is no time without progress."""

from __future__ import annotations

import time

LONGEST = 5.0  # seconds between two ticks that count: a watcher that was stopped for an hour has not seen an hour


class RunClock:
    """Seconds since the run began. Only where it began is taken from the wall clock."""

    def __init__(self, started: float) -> None:
        self._offset = max(time.time() - started, 0.0) - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()


class WatchedTime:
    """Seconds for which the run was watched. Ctrl-Z, a suspended laptop, a machine that swaps: none of it counts.

    It is never ahead of the run's own clock, so a stall may be told late by as much as was missed, and never early.
    """

    def __init__(self) -> None:
        self._before = time.monotonic()
        self.now = 0.0

    def tick(self) -> float:
        passed, self._before = time.monotonic() - self._before, time.monotonic()
        self.now += min(passed, LONGEST)
        return self.now
