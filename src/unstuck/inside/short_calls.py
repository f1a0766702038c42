"""Calls of a data library that may take microseconds: a tokenizer that is handed one short document at a time.

Such a call at the line of the one before it is only counted, in plain numbers. Once a millisecond one of them is taken
the long way, which walks up the stack and writes everything down.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from collections.abc import Callable
from types import CodeType
from typing import Any

from .buffers import buffers
from .guard import Guard, clean
from .lines import user_frame
from .process import process
from .recorder import Recorder, clock
from .sources import SOON, Open, Source, counted, sources


class Near:
    """Where the newest call of one function came from."""

    __slots__ = ("code", "line", "recorder", "source", "until")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.source: Source | None = None
        self.code: CodeType | None = None
        self.line = self.until = 0

    def learn(self, call: Open) -> None:
        """Only where the call came from the user's own line: what a library calls says nothing of who called it."""
        caller = call.frame.f_back
        source = call.source
        if caller is None or user_frame(caller) is not caller or source.stale:
            self.source = self.recorder = None
            return
        self.code, self.line, self.source, self.recorder = caller.f_code, caller.f_lineno, source, source.recorder
        self.until = min(source.shown + SOON, buffers.due)

    def add(self, source: Source, start: int, now: int, made: int) -> None:
        source.items += 1
        source.made += made
        source.short.append(now - start)
        if not made:
            self.until = 0
        source.spent += clock() - now


def counted_one(original: Any, kind: str, name: str, guard: Guard, made_of: Callable[[Any], int]) -> Any:
    """A wrapper for a function that is handed one document. `made_of(result)`: how many tokens came of it."""
    near = Near()

    def measure(call: Open, _: Any, __: Any, result: Any) -> None:
        made = made_of(result)
        call.ends(1, made, is_new=made > 0)
        near.learn(call)

    long_way = counted(original, kind, name, guard, measure)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        start, source, caller, mark = clock(), near.source, sys._getframe(1), (get_ident(), kind)
        if (
            source is None
            or start > near.until
            or near.recorder is not process.recorder
            or near.code is not caller.f_code
            or near.line != caller.f_lineno
            or mark in sources.open
            or sources.spread
        ):
            try:
                return long_way(*args, **kwargs)
            except Exception as error:
                clean(error)
                raise
        sources.open[mark] = None
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        finally:  # also after Ctrl-C
            sources.open.pop(mark, None)
        try:
            near.add(source, start, clock(), made_of(result))
        except Exception as error:
            if guard.theirs(error):
                raise
        return result

    return call
