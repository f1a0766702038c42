"""Recognises a loop that fills a buffer, `while len(buffer) < needed:`, in the code that calls a data library.

How full the buffer is and how much it needs is then told as if the user's code had said so by `unstuck.progress`. Only
lengths of Python's own lists, deques and arrays are asked for: nothing of the user's is run.
"""

from __future__ import annotations

import array
import collections
from types import CodeType, FrameType
from typing import Any

from .api import progress
from .filling import Filling, fillings, value_of
from .guard import is_library
from .recorder import Recorder, clock

SOON = 50_000_000  # nanoseconds between two looks
UP = 12  # calls up the stack
CODES = 512  # whose analysis is kept
SHOWN = 4  # buffers: each takes a place on the board
HELD = (list, collections.deque, array.array)


class Buffers:
    """Of this process."""

    def __init__(self) -> None:
        self.due = 0
        self._known: dict[CodeType, tuple[Filling, ...]] = {}
        self._shown: dict[str, tuple[Recorder | None, int, int]] = {}

    def look(self, recorder: Recorder, frame: FrameType | None) -> None:
        now = clock()
        if now < self.due:
            return
        self.due = now + SOON
        for _ in range(UP):
            if frame is None:
                break
            self._tell(recorder, frame, self._of(frame.f_code))
            frame = frame.f_back
        recorder.cost(clock() - now)

    def _of(self, code: CodeType) -> tuple[Filling, ...]:
        found = self._known.get(code)
        if found is None:
            found = () if is_library(code.co_filename) else fillings(code)
            if len(self._known) < CODES:
                self._known[code] = found
        return found

    def _tell(self, recorder: Recorder, frame: FrameType, found: tuple[Filling, ...]) -> None:
        """Of the innermost loop that the call is in. What is as before is not told again."""
        around = [one for one in found if one.begin <= frame.f_lasti <= one.end]
        if not around:
            return
        one = min(around, key=lambda each: each.end - each.begin)
        held, need = value_of(one.buffer, frame), value_of(one.need, frame)
        if type(held) not in HELD or type(need) is not int or need <= 0:
            return
        now = recorder, len(held), need
        if self._shown.get(one.name) != now and (one.name in self._shown or len(self._shown) < SHOWN):
            self._shown[one.name] = now
            progress(one.name, len(held), need, _unit(held))


def _unit(held: Any) -> str:
    """By what it holds: single numbers are tokens, sequences of them are documents."""
    if type(held) is array.array:
        return "tokens"
    try:
        first = held[0]
    except IndexError:
        return "items"
    if type(first) is int:
        return "tokens"
    return "documents" if type(first) in (list, tuple, str, array.array) else "items"


buffers = Buffers()
