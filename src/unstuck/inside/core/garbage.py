"""Pauses of Python's garbage collector: how long the whole process stood still for each.

A callback of the collector that is written in Python would run bytecode, and with it the signal handlers that became
due while it collected. What they raise, a time-out of the user's or torch's word of a dead worker, the collector would
swallow. So nothing here is bytecode: `getattr(watch, "start", info)` looks up a property, whose getter takes the next
item of a `map`, which appends the next reading of the clock to a list. A stop is written down as a negative number.
"""

from __future__ import annotations

import functools
import gc
from collections import deque
from operator import attrgetter, methodcaller, neg
from typing import Any

from ..format import APART, GARBAGE, T_BUCKETS, T_MAX, T_SUM, TOTAL_WORDS, Kind
from .recorder import Recorder, clock

KEPT = 8192  # readings that nobody has fetched yet; older ones are lost
LONG = 1_000_000  # nanoseconds: shorter pauses are everyday life, thousands in a second
WHAT = "collection"

_readings: deque[int] = deque(maxlen=KEPT)


class _Watch(map):  # type: ignore[type-arg]
    stops: _Watch
    start = property(methodcaller("__next__"))
    stop = property(attrgetter("stops.start"))


_begins: Any = _Watch(_readings.append, iter(clock, None))
_begins.stops = _Watch(_readings.append, map(neg, iter(clock, None)))
_callback = functools.partial(getattr, _begins)
_looped: list[Recorder] = []  # in which a loop has begun


def watch() -> None:
    if _callback not in gc.callbacks:
        gc.callbacks.append(_callback)


def leave() -> None:
    """In a forked child, which may turn out to be a worker."""
    if _callback in gc.callbacks:
        gc.callbacks.remove(_callback)
    _readings.clear()


def pass_begins(recorder: Recorder) -> None:
    """Over some loader: with the first of all of them the set-up is over, as far as is known yet."""
    if _looped[-1:] != [recorder]:
        _looped[:] = [recorder]
        begins(recorder)


def begins(recorder: Recorder) -> None:
    """The training does so now: what was collected until here belongs to its set-up, and is taken out of the totals."""
    write(recorder)
    slot = recorder.total_slot(Kind.CALL, recorder.intern(WHAT + APART + GARBAGE + APART))
    for word in (T_SUM, T_MAX, *range(T_BUCKETS, TOTAL_WORDS)):
        recorder.words[slot + word] = 0


def write(recorder: Recorder) -> None:
    """Write down the pauses since the last time that were long ones."""
    started = 0
    for _ in range(len(_readings)):
        moment = _readings.popleft()
        if moment > 0:
            started = moment
        elif started:
            if -moment - started >= LONG:
                _pause(recorder, started, -moment - started)
            started = 0
    if started:  # it goes on in another thread
        _readings.appendleft(started)


def _pause(recorder: Recorder, start: int, took: int) -> None:
    key = recorder.intern(WHAT + APART + GARBAGE + APART)
    recorder.event(Kind.CALL, key, start, took)
    recorder.total(recorder.total_slot(Kind.CALL, key), took)
