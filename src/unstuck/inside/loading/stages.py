"""Stages of the work on a sample: how long each took, how much of it on the processor, which item was slowest.

Those that the user names (`unstuck.stage`), and those of common readers that adapters know. What is called inside of a
stage is part of it: a reader that another stage is around is not told.
"""

from __future__ import annotations

import os
import threading
from time import thread_time_ns
from typing import Any, NamedTuple

from ..core.recorder import Recorder, clock
from ..core.run_folder import sample_times
from ..format import T_MAX, T_SUM, Kind
from .fetches import note_slowest

# One time in eight the processor time and the bytes read are taken: system calls, and what they cost is measured. Which
# of the eight it is goes round: every eighth item may be unlike the others.
SELDOM, EIGHT = 7, 3
COUNTERS = "/proc/thread-self/io"
ALL = "all of them together"  # has the key 0, and no name in the recording
KNOWN = 256  # names that are remembered; a program that makes them up has each looked up anew


class Taken(NamedTuple):
    """What a thread has used when a stage begins: bytes asked for, bytes from a disk, processor time."""

    read: int
    fetched: int
    cpu: int


class Stage:
    """What is known of one name, in one recording."""

    __slots__ = ("count", "cpu", "detailed", "fetched", "key", "name", "read", "recorder", "slot", "timed", "total")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder = recorder
        self.name = name
        self.key = 0 if name is ALL else recorder.intern(name)
        self.slot: int | None = None  # on the board, once it is shown there
        self.total = recorder.total_slot(Kind.STAGE, self.key)
        kinds = (Kind.STAGE_CPU, Kind.STAGE_TIMED, Kind.STAGE_READ, Kind.STAGE_FETCHED)
        slots = [0] * len(kinds) if name is ALL else [recorder.total_slot(kind, self.key) for kind in kinds]
        self.cpu, self.timed, self.read, self.fetched = slots
        self.detailed = sample_times()  # somebody has asked for a line about every sample
        self.count = 0

    def begins(self) -> Taken | None:
        """What this thread has used so far. None: it is not asked for. The first time is unlike others."""
        self.count = count = self.count + 1
        return Taken(*counters(), thread_time_ns()) if (count + (count >> EIGHT)) & SELDOM == 2 else None

    def ends(self, begun: int, now: int, before: Taken | None, item: str, *, outermost: bool) -> None:
        """What no other stage is around is summed up, under no name."""
        recorder, spent = self.recorder, now - begun
        words = recorder.words
        if spent > words[self.total + T_MAX]:
            note_slowest(recorder, self.name, begun, spent, item)
        recorder.total(self.total, spent)
        if outermost:
            words[stage_of(recorder, ALL).total + T_SUM] += spent
        if before is not None:
            recorder.total(self.cpu, thread_time_ns() - before.cpu)
            recorder.total(self.timed, spent)
            read, fetched = counters()
            if before.read >= 0 and read >= 0:
                recorder.total(self.read, read - before.read)
                recorder.total(self.fetched, fetched - before.fetched)
            recorder.cost((clock() - now) * (SELDOM + 1), SELDOM + 1)  # it stands for all

    def tells(self, begun: int, spent: int, item: str, shape: str, own: int) -> None:
        """A line can be made of it. `own` is 2 if the user named it, 1 if it is a reader's."""
        recorder = self.recorder
        texts = (recorder.intern(item) if item else 0, recorder.intern(shape) if shape else 0)
        recorder.event(Kind.STAGE, self.key, begun, spent, *texts, own)


class Depth(threading.local):
    """How many stages are open in this thread."""

    open = 0


def counters() -> tuple[int, int]:
    """Bytes that this thread has asked for, and that came from a disk; -1 where the kernel does not tell them."""
    try:
        file = os.open(COUNTERS, os.O_RDONLY | os.O_CLOEXEC)
        try:
            words = os.read(file, 256).split()
        finally:
            os.close(file)
        return int(words[1]), int(words[9])
    except (OSError, ValueError, IndexError):
        return -1, -1


def stage_of(recorder: Recorder, name: str) -> Stage:
    found = _stages.get(name)
    if found is None or found.recorder is not recorder:
        if len(_stages) >= KNOWN:
            _stages.clear()
        found = _stages[name] = Stage(recorder, name)
    return found


def shape_of(value: Any) -> str:
    """Of an array or a tensor of numpy's or torch's own."""
    if type(value).__module__ in ("numpy", "torch") and hasattr(type(value), "shape"):
        return str(tuple(map(int, value.shape)))
    return ""


_stages: dict[str, Stage] = {}
depth = Depth()
