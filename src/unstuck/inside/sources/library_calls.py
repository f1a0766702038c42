"""What a process gets from data libraries: rows, documents and tokens, by function and by the user's line.

What one such call asks of another of the same kind is part of it: a tokenizer of transformers that calls one of
tokenizers counts once. Calls that bring nothing new (a file that is opened again, a row group that is blank again) are
counted, but not shown on the board: whoever goes round in circles does not get on.

A tokenizer that is handed one short document at a time takes microseconds for each. Such a call at the line of the one
before it is only counted, in plain numbers. Once a millisecond one of them is taken the long way, which walks up the
stack and writes everything down.
"""

from __future__ import annotations

import functools
import os
import sys
from _thread import get_ident
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ..core.frames import user_frame
from ..core.guard import Guard, around, clean
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import H_ROLE, ROLE_MAIN, Kind
from ..loading.readers import noted_reader
from .buffers import buffers

APART = "\n"  # between kind, name, threads and the parts of the line
ROWS, TOKENS, MAP = "rows", "tokens", "map"
LINES = 12  # that are kept apart: each takes a place on the board
SOON = 1_000_000  # nanoseconds between two stores on the board: a call may take a few microseconds
ROUNDS = (10, 1_000, 100_000)  # calls without anything new that are noted
BURST = 50_000_000, 500_000_000  # nanoseconds that one event stands for, in a main process and in any other

Measure = Callable[["Open", tuple[Any, ...], dict[str, Any], Any], None]

NO = ("off", "false", "f", "no", "n", "0")


class Source:
    """One function, called at one line."""

    __slots__ = (
        "again", "began", "blank", "burst", "busy", "calls", "items", "items_told", "key", "looked", "made",
        "made_told", "recorder", "short", "shown", "slot", "spent", "stale", "total",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, text: str) -> None:
        self.recorder = recorder
        self.key = recorder.intern(text)
        self.total = recorder.total_slot(Kind.SOURCE, self.key)
        self.slot = recorder.board_slot(Kind.SOURCE, self.key)
        self.burst = BURST[recorder.words[H_ROLE] != ROLE_MAIN]
        self.items = self.made = self.looked = self.blank = self.shown = 0
        self.began = self.busy = self.calls = self.items_told = self.made_told = 0  # of the burst
        self.short: list[int] = []  # durations of short calls that are not written down yet
        self.spent = 0  # nanoseconds on counting them
        self.stale, self.again = False, 0  # the newest call brought nothing new; how many did not
        recorder.note(Kind.SOURCE, self.key, clock(), 0)

    def show(self, moment: int, going_on: int) -> None:
        self.shown = moment
        items = self.items << 1 | going_on
        self.recorder.board(self.slot, Kind.SOURCE, self.key, moment, items, self.made, self.looked, self.blank)

    def settle(self) -> None:
        """Write down what was only counted."""
        short, self.short = self.short, []
        spent, self.spent = self.spent, 0
        for took in short:
            self.recorder.total(self.total, took)
        self.busy += sum(short)
        self.calls += len(short)
        if short:
            self.recorder.cost(spent, len(short))

    def went_round(self, start: int) -> None:
        """A call brought nothing new. Noted without a time: it is no sign of life."""
        self.again += 1
        if self.again in ROUNDS:
            self.recorder.note(Kind.SOURCE, self.key, 0, 0, self.again)
        if self.shown == start:  # it was put up as going on
            self.show(clock(), 0)

    def tell(self) -> None:
        """One event for all calls of a short time: its duration is what they took together."""
        items, made = self.items - self.items_told, self.made - self.made_told
        self.items_told, self.made_told = self.items, self.made
        began, self.began = self.began, 0
        self.recorder.event(Kind.SOURCE, self.key, began, self.busy, items, made, self.calls)
        self.busy = self.calls = 0


class Open:
    """A call that goes on."""

    __slots__ = ("frame", "mark", "source", "spread", "start")

    def __init__(self, source: Source, mark: tuple[int, str], frame: FrameType, spread: bool) -> None:
        self.source, self.mark, self.frame, self.spread = source, mark, frame, spread
        self.start = clock()
        if self.start - source.shown > SOON and not source.stale:
            source.show(self.start, 1)

    def ends(self, items: int, made: int = 0, looked: int = 0, blank: int = 0, *, is_new: bool = True) -> None:
        """`is_new`: it brought something that was not there before."""
        source = self.source
        if source.recorder is not process.recorder:  # a child was forked in between
            return
        now = clock()
        source.items += items
        source.made += made
        source.looked += looked
        source.blank += blank
        if source.short:
            source.settle()
        source.recorder.total(source.total, now - self.start)
        source.stale = not is_new
        if is_new:
            source.began = source.began or self.start
            source.busy += now - self.start
            source.calls += 1
            if source.shown == self.start or now - source.shown > SOON:
                source.show(now, 0)
            if now - source.began > source.burst or not source.items_told:
                source.tell()
        else:
            source.went_round(self.start)
        source.recorder.cost(clock() - now)

    def moves(self, items: int) -> None:
        """It goes on and has come so much further."""
        self.source.items += items
        now = clock()
        if now - self.source.shown > SOON and self.source.recorder is process.recorder:
            self.source.show(now, 1)


class Sources:
    """What this process's recording knows of them."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.known: dict[tuple[object, ...], Source] = {}
        self.open: dict[tuple[int, str], Open | None] = {}
        self.spread = 0  # calls that have other threads make calls of the same kind

    def begins_recording(self, recorder: Recorder) -> None:
        self.recorder, self.known, self.open, self.spread = recorder, {}, {}, 0
        process.remembered.append(self.settle)

    def settle(self) -> None:
        for source in list(self.known.values()):
            if source.recorder is process.recorder:
                source.settle()
                source.show(clock(), 0)
                if source.calls:
                    source.tell()

    def of(self, recorder: Recorder, kind: str, name: str, threads: int | None, line: FrameType | None) -> Source:
        short: tuple[object, ...] = (kind, name, threads, line and line.f_code, line.f_lineno if line else 0)
        found = self.known.get(short)
        if found is None:
            if len(self.known) >= LINES:
                short, threads, line = (kind, name), None, None
            found = self.known.get(short)
            if found is None:
                found = self.known[short] = Source(recorder, _text(kind, name, threads, line))
        return found


def begin(kind: str, name: str, frame: FrameType, threads: int | None = None, spread: bool = False) -> Open | None:
    """None when nothing records, and inside another call of this kind."""
    recorder = process.recorder
    if recorder is None:
        return None
    if recorder is not sources.recorder:
        sources.begins_recording(recorder)
    mark = get_ident(), kind
    if mark in sources.open or (sources.spread and kind == TOKENS):
        return None
    line = user_frame(frame)
    if kind != MAP and line is not None:
        buffers.look(recorder, line)
    found = Open(sources.of(recorder, kind, name, threads, line), mark, frame, spread)
    sources.open[mark] = found
    sources.spread += spread
    return found


def leave(one: Open) -> None:
    """However it was left."""
    if sources.open.pop(one.mark, None) is not None:
        sources.spread -= one.spread


def counted(original: Any, kind: str, name: str, guard: Guard, measure: Measure, threads: Any = None) -> Any:
    """A wrapper for a function that is one call. `threads(args, kwargs)`: how many it will use, and whether its own."""
    begins = functools.partial(_begin, kind, name, threads)
    inner = noted_reader(original, name, guard) if kind == ROWS else original
    return functools.update_wrapper(around(inner, guard, begins, measure=measure, leave=leave), original)


def _begin(kind: str, name: str, threads: Any, frame: FrameType, args: Any, kwargs: Any) -> Open | None:
    if process.recorder is None:
        return None
    return begin(kind, name, frame, *(threads(args, kwargs) if threads is not None else ()))


def _text(kind: str, name: str, threads: int | None, line: FrameType | None) -> str:
    parts = [kind, name, "" if threads is None else str(threads)]
    if line is not None:
        parts += [line.f_code.co_filename, str(line.f_lineno), line.f_code.co_name]
    return APART.join(parts)


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


def tokenizer_threads(_: Any = (), __: Any = None) -> tuple[int | None]:
    """None: nobody said, and it takes all processors there are."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in NO:
        return (1,)
    told = os.environ.get("TOKENIZERS_NUM_THREADS") or os.environ.get("RAYON_NUM_THREADS", "")
    return (int(told) if told.isdigit() and int(told) else None,)


sources = Sources()
