"""Side work of the main thread, timed: calls into loggers and the like, by name and by the user's line.

What such a call calls in turn is part of it: only the outermost counts, so that no second is counted twice.

Calls that come by the thousand and take microseconds each, as rows that are put into a table, are bursts. What follows
closely on each other is written down as one call that took as long as its calls together. What the user's own code does
in between is not counted.
"""

from __future__ import annotations

import functools
import sys
import threading
from _thread import get_ident
from types import CodeType, FrameType
from typing import Any

from ..core.frames import in_words, user_frame
from ..core.guard import Guard, around, clean
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..failures.exceptions import message_of
from ..format import APART, H_ROLE, ROLE_MAIN, Kind

KINDS = 64  # lines that are kept apart; a program that makes up names has the rest in one
FAILURES = 100  # that are noted
LONGEST = 300  # characters of a message

BURST_GAP = 1_000_000  # ns between two calls: something else was done, and may have been timed
LONGEST_BURST = 1_000_000_000  # ns: what goes on for longer is shown while it does


class Calls:
    """What is known of the calls that this process's recording has."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.open: set[Open] = set()  # one at the most; what leaves it by a method in C, no signal handler holds up
        self.slot = 0
        self.failures = 0
        self.known: dict[tuple[str, object, int], tuple[int, int]] = {}

    def begins_recording(self, recorder: Recorder) -> None:
        self.recorder, self.failures, self.known = recorder, 0, {}
        self.open.clear()
        self.slot = recorder.board_slot(Kind.CALL)

    def key(self, recorder: Recorder, what: str, name: str, frame: FrameType | None) -> tuple[int, int]:
        """Number of the call's text, and its place among the totals."""
        frame = user_frame(frame)
        short = (what + name, frame and frame.f_code, frame.f_lineno if frame else 0)
        found = self.known.get(short)
        if found is None:
            if len(self.known) >= KINDS:
                short, name, frame = (what, None, 0), "", None
            found = self.known.get(short) or self._meet(recorder, short, what + APART + name + APART + in_words(frame))
        return found

    def _meet(self, recorder: Recorder, short: tuple[str, object, int], text: str) -> tuple[int, int]:
        key = recorder.intern(text)
        found = self.known[short] = (key, recorder.total_slot(Kind.CALL, key))
        recorder.note(Kind.CALL, key, clock(), 0)
        return found


class Open:
    """One that was begun."""

    __slots__ = ("key", "recorder", "start", "total")

    def __init__(self, recorder: Recorder, key: int, total: int) -> None:
        self.recorder, self.key, self.total = recorder, key, total
        self.start = clock()
        recorder.board(calls.slot, Kind.CALL, key, self.start, 1)

    def ends(self, error: Exception | None = None) -> None:
        recorder = self.recorder
        if recorder is not process.recorder:  # a child was forked in between
            return
        now = clock()
        spent = now - self.start
        recorder.event(Kind.CALL, self.key, self.start, spent, error is not None)
        recorder.total(self.total, spent)
        if error is not None and calls.failures < FAILURES:
            calls.failures += 1
            text = f"{type(error).__name__}: {message_of(error)}"[:LONGEST]
            recorder.note(Kind.CALL, self.key, self.start, spent, 1, recorder.intern(text))
        recorder.board(calls.slot, Kind.CALL, self.key, now)
        recorder.cost(clock() - now)


def begin(what: str, name: str, frame: FrameType | None, _args: object = (), _kwargs: object = None) -> Open | None:
    """None when nothing records, in another thread than the main one, in a worker, and inside another call."""
    recorder = process.recorder
    if recorder is None or get_ident() != threading.main_thread().ident or recorder.words[H_ROLE] != ROLE_MAIN:
        return None
    if recorder is not calls.recorder:
        calls.begins_recording(recorder)
    if calls.open:
        return None
    found = Open(recorder, *calls.key(recorder, what, name, frame))
    calls.open.add(found)
    return found


def timed(original: Any, what: str, name: str, guard: Guard) -> Any:
    """A wrapper for a function that is one call."""
    begins = functools.partial(begin, what, name)
    call = around(original, guard, begins, end=Open.ends, fail=Open.ends, leave=calls.open.discard)
    return functools.update_wrapper(call, original)


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
        self.start, self.until, self.last, self.spent = start, start + LONGEST_BURST, start, 0

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


def counted_in_bursts(original: Any, what: str, name: str, guard: Guard) -> Any:
    """A wrapper for a function that is called for every row."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if calls.open or (burst.thread and burst.thread != get_ident()):  # part of another call, or another thread's
            return original(*args, **kwargs)
        start, frame = clock(), sys._getframe(1)
        if burst.code is not frame.f_code or start - burst.last > BURST_GAP or start > burst.until:
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


calls = Calls()

burst = Burst()
