"""Calls and blocks in which ranks wait for each other: which, at which line of the user's, since when, until when."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .format import APART, ROLE_MAIN, Kind
from .guard import Guard, clean
from .lines import in_words
from .process import process
from .recorder import Recorder, clock


class Span:
    """One that was begun."""

    __slots__ = ("key", "recorder", "slot", "start")

    def __init__(self, recorder: Recorder, name: str, frame: FrameType | None) -> None:
        self.recorder = recorder
        self.key = recorder.intern(name + APART + in_words(frame))
        self.slot = recorder.board_slot(Kind.SPAN, self.key)
        self.start = clock()
        recorder.board(self.slot, Kind.SPAN, self.key, self.start, 1)

    def fails(self) -> None:
        self.ends(failed=True)

    def ends(self, *, failed: bool = False) -> None:
        recorder = self.recorder
        if recorder is process.recorder:  # else a child was forked in between
            now = clock()
            recorder.event(Kind.SPAN, self.key, self.start, now - self.start, failed)
            recorder.total(recorder.total_slot(Kind.SPAN, self.key), now - self.start)
            recorder.board(self.slot, Kind.SPAN, self.key, now)
            recorder.cost(clock() - now)


def begin(name: str, frame: FrameType | None) -> Span | None:
    """None when nothing records."""
    recorder = process.recording(ROLE_MAIN)
    return None if recorder is None else Span(recorder, name, frame)


def spanned(original: Any, name: str, guard: Guard) -> Any:
    """A wrapper for a function that is one span."""

    def call(*args: Any, **kwargs: Any) -> Any:
        span = guard.result(begin, name, sys._getframe(1))
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            if span is not None:
                guard.quietly(span.fails)
            clean(error)
            raise
        if span is not None:
            guard.quietly(span.ends)
        return result

    return call


def spanned_generator(original: Any, name: str, guard: Guard) -> Any:
    """A wrapper for a generator that is the inside of a context manager: the whole block is one span."""

    def block(*args: Any, **kwargs: Any) -> Iterator[Any]:
        span = guard.result(begin, name, sys._getframe(1))
        failed = True
        try:
            yield from original(*args, **kwargs)
            failed = False
        except Exception as error:
            clean(error)
            raise
        finally:
            if span is not None:
                guard.quietly(span.fails if failed else span.ends)

    return block
