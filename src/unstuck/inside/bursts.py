"""Calls into a logger that come by the thousand and take microseconds each: rows that are put into a table.

What follows closely on each other is one burst, and is written down as one call that took as long as its calls
together. What the user's own code does in between is not counted.
"""

from __future__ import annotations

import functools
import sys
import threading
from _thread import get_ident
from types import CodeType, FrameType
from typing import Any

from .calls import calls
from .format import H_ROLE, ROLE_MAIN, Kind
from .guard import Guard, clean
from .process import process
from .recorder import Recorder, clock

APART = 1_000_000  # ns between two calls: something else was done, and may have been timed
LONGEST = 1_000_000_000  # ns: what goes on for longer is shown while it does


class Burst:
    """The one that is under way; none if there is no code."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.code: CodeType | None = None
        self.thread = self.key = self.slot = 0
        self.start = self.until = self.last = self.spent = 0

    def begins(self, what: str, name: str, frame: FrameType, start: int) -> None:
        self.ends()
        recorder = process.recorder
        if recorder is None or get_ident() != threading.main_thread().ident or recorder.words[H_ROLE] != ROLE_MAIN:
            return
        if recorder is not calls.recorder:
            calls.begins_recording(recorder)
        self.key, self.slot = calls.key(recorder, what, name, frame)
        self.recorder, self.thread, self.code = recorder, get_ident(), frame.f_code
        self.start, self.until, self.last, self.spent = start, start + LONGEST, start, 0

    def ends(self) -> None:
        """Also when something else of the logger's is called: nothing else would write the last one down."""
        recorder, spent = self.recorder, self.spent
        self.recorder = self.code = None
        if recorder is None or not spent or recorder is not process.recorder:  # in the end: a child was forked
            return
        now = clock()
        recorder.event(Kind.CALL, self.key, self.start, spent)
        recorder.total(self.slot, spent)
        recorder.cost(clock() - now)


def counted(original: Any, what: str, name: str, guard: Guard) -> Any:
    """A wrapper for a function that is called for every row."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if calls.open or (burst.thread and burst.thread != get_ident()):  # part of another call, or another thread's
            return original(*args, **kwargs)
        start, frame = clock(), sys._getframe(1)
        if burst.code is not frame.f_code or start - burst.last > APART or start > burst.until:
            guard.quietly(burst.begins, what, name, frame, start)
        try:
            return original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        finally:  # also after Ctrl-C
            burst.last = now = clock()
            burst.spent += now - start

    return call


burst = Burst()
