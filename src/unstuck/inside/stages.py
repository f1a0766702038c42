"""Stages of the work on a sample: how long each took, how much of it on the processor, which item was slowest.

Those that the user names (`unstuck.stage`), and those of common readers that adapters know. What is called inside of a
stage is part of it: a reader that another stage is around is not told.
"""

from __future__ import annotations

import functools
import sys
import threading
from time import thread_time_ns
from typing import Any

from . import caught, slowest
from .fetches import in_sample
from .format import T_MAX, T_SUM, Kind
from .guard import Guard, clean
from .process import process
from .recorder import Recorder, clock
from .run_folder import sample_times

SELDOM = 7  # one time in eight the processor time is taken, which is a system call, and what it costs is measured
ALL = "all of them together"  # has the key 0, and no name in the recording
KNOWN = 256  # names that are remembered; a program that makes them up has each looked up anew


class Stage:
    """What is known of one name, in one recording."""

    __slots__ = ("count", "cpu", "detailed", "key", "name", "recorder", "slot", "total")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder = recorder
        self.name = name
        self.key = 0 if name is ALL else recorder.intern(name)
        self.slot: int | None = None  # on the board, once it is shown there
        self.total = recorder.total_slot(Kind.STAGE, self.key)
        self.cpu = 0 if name is ALL else recorder.total_slot(Kind.STAGE_CPU, self.key)
        self.detailed = sample_times()  # somebody has asked for a line about every sample
        self.count = 0

    def begins(self) -> int:
        """The processor time that this thread has had, or -1: it is not asked for. The first time is unlike others."""
        self.count = count = self.count + 1
        return thread_time_ns() if count & SELDOM == 2 else -1

    def ends(self, begun: int, now: int, cpu: int, item: str, *, outermost: bool) -> None:
        """What no other stage is around is summed up, under no name."""
        recorder, spent = self.recorder, now - begun
        words = recorder.words
        if spent > words[self.total + T_MAX]:
            slowest.seen(recorder, self.name, begun, spent, item)
        recorder.total(self.total, spent)
        if outermost:
            words[of(recorder, ALL).total + T_SUM] += spent
        if cpu >= 0:
            recorder.total(self.cpu, thread_time_ns() - cpu)
            recorder.cost((clock() - now) * (SELDOM + 1), SELDOM + 1)  # it stands for all

    def tells(self, begun: int, spent: int, item: str, shape: str, own: int) -> None:
        """A line can be made of it. `own` is 2 if the user named it, 1 if it is a reader's."""
        recorder = self.recorder
        texts = (recorder.intern(item) if item else 0, recorder.intern(shape) if shape else 0)
        recorder.event(Kind.STAGE, self.key, begun, spent, *texts, own)


class Depth(threading.local):
    """How many stages are open in this thread."""

    open = 0


def of(recorder: Recorder, name: str) -> Stage:
    found = _stages.get(name)
    if found is None or found.recorder is not recorder:
        if len(_stages) >= KNOWN:
            _stages.clear()
        found = _stages[name] = Stage(recorder, name)
    return found


def timed(original: Any, name: str, guard: Guard) -> Any:
    """A wrapper for a function that reads or decodes: a stage of its own, while a sample is being loaded."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        known: Stage | None = None
        cpu, recorder = -1, process.recorder
        try:
            if recorder is not None and not depth.open and in_sample(recorder):
                known = of(recorder, name)
                cpu = known.begins()
        except Exception as error:
            if guard.theirs(error):
                raise
        if known is None:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                guard.quietly(caught.fails, name, caught.of_call(args), error, sys._getframe(1))
                clean(error)
                raise
        begun = clock()
        depth.open += 1
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            guard.quietly(caught.fails, name, caught.of_call(args), error, sys._getframe(1))
            clean(error)
            raise
        finally:
            depth.open -= 1
        try:
            now = clock()
            if recorder is process.recorder:  # else it has forked, and this is the child
                item = args[0] if args and type(args[0]) is str else ""
                known.ends(begun, now, cpu, item, outermost=True)
                if caught.failed:
                    caught.succeeds(name, caught.of_call(args))
                if known.detailed:
                    known.tells(begun, now - begun, item, shape_of(result), 1)
        except Exception as error:
            if guard.theirs(error):
                raise
        return result

    return call


def shape_of(value: Any) -> str:
    """Of an array or a tensor of numpy's or torch's own."""
    if type(value).__module__ in ("numpy", "torch") and hasattr(type(value), "shape"):
        return str(tuple(map(int, value.shape)))
    return ""


_stages: dict[str, Stage] = {}
depth = Depth()
