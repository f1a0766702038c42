"""Hooks of callbacks and of models, as a trainer calls them: each as a call of its own, around whatever it calls.

Unlike other calls they are the outer ones: a logger or a checkpoint inside of one is still recorded by its own name.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from .exceptions import message_of
from .format import APART, H_ROLE, ROLE_MAIN, Kind
from .guard import is_library
from .process import process
from .recorder import Recorder, clock

WHAT = "callback"
HOOKS = 128  # of which each has totals of its own; a program that makes up classes has the rest in none
NOTED = 100  # times that an exception left one
LONGEST = 300  # characters of a message
WRAPPERS = 4  # decorators around a hook, as `rank_zero_only`


class Hooks:
    """What is known of them in this process's recording."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.known: dict[str, tuple[int, int]] = {}
        self.open = self.failed = 0

    def key(self, recorder: Recorder, text: str) -> tuple[int, int] | None:
        """Number of the text and place among the totals."""
        if self.recorder is not recorder:
            self.recorder, self.known, self.open, self.failed = recorder, {}, 0, 0
        found = self.known.get(text)
        if found is None and len(self.known) < HOOKS:
            key = recorder.intern(text)
            found = self.known[text] = (key, recorder.total_slot(Kind.CALL, key))
            recorder.note(Kind.CALL, key, clock(), 0)
        return found


class Hook:
    """One that was begun."""

    __slots__ = ("key", "recorder", "slot", "start", "total")

    def __init__(self, recorder: Recorder, key: int, total: int) -> None:
        self.recorder, self.key, self.total = recorder, key, total
        self.slot = recorder.board_slot(Kind.CALL, 1)  # 0 is that of the calls it may make
        self.start = clock()
        hooks.open += 1
        recorder.board(self.slot, Kind.CALL, key, self.start, 1)

    def ends(self, error: BaseException | None = None) -> None:
        recorder = self.recorder
        hooks.open = max(hooks.open - 1, 0)
        if recorder is not process.recorder:  # a child was forked in between
            return
        now = clock()
        spent = now - self.start
        failed = isinstance(error, Exception)
        recorder.event(Kind.CALL, self.key, self.start, spent, failed)
        recorder.total(self.total, spent)
        if failed and error is not None and hooks.failed < NOTED:
            hooks.failed += 1
            text = f"{type(error).__name__}: {message_of(error)}"[:LONGEST]
            recorder.note(Kind.CALL, self.key, self.start, spent, 1, recorder.intern(text))
        recorder.board(self.slot, Kind.CALL, self.key, now)
        recorder.cost(clock() - now)


def begin(owner: object, hook: str, function: object) -> Hook | None:
    """None when nothing records, in a worker, and inside of another hook."""
    recorder = process.recorder
    if recorder is None or recorder.words[H_ROLE] != ROLE_MAIN:
        return None
    text = APART.join((WHAT, f"{name_of(owner)}.{hook}", *_place(function)))
    found = hooks.key(recorder, text)
    return None if found is None or hooks.open else Hook(recorder, *found)


def name_of(owner: object) -> str:
    return type(owner).__name__


def code_of(function: object) -> CodeType | None:
    """Of the function itself, without what is wrapped around it."""
    for _ in range(WRAPPERS):
        function = getattr(function, "__func__", function)
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    found: Any = getattr(function, "__code__", None)
    return found if isinstance(found, CodeType) else None


def place_of(function: object) -> dict[str, Any] | None:
    """Where a function of the user's is written; None: it is a library's."""
    code = code_of(function)
    if code is None or is_library(code.co_filename):
        return None
    return {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name}


def does_nothing(function: object) -> bool:
    """`pass`, a docstring, `...`: None comes back, and nothing else happens."""
    code = code_of(function)
    return code is not None and any(code.co_code == one.__code__.co_code for one in NOTHING) and not code.co_names


def _place(function: object) -> tuple[str, ...]:
    found = place_of(function)
    return () if found is None else (found["file"], str(found["line"]), found["function"])


def _nothing() -> None:
    pass


def _documented() -> None:
    """Does nothing."""


NOTHING = (_nothing, _documented)  # what compilers of this Python make of that
hooks = Hooks()
