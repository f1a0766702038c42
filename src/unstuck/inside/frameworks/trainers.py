"""What a framework's trainer was told to do and how far it came; its passes over loaders; the hooks it calls.

A trainer that knows how many batches there are never asks for one more: the loader alone does not see that a pass is
over. And one that does not know takes a batch ahead, so that the loader is exhausted before the last is trained on.

Hooks of callbacks and of models are calls of their own, around whatever they call. Unlike other calls they are the
outer ones: a logger or a checkpoint inside of one is still recorded by its own name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from ..api import OpenPhase, phase_begins, phase_ends
from ..core.frames import user_line
from ..core.guard import is_library
from ..core.objects import as_json, attributes_of
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..failures.exceptions import message_of
from ..format import APART, H_ROLE, ROLE_MAIN, Kind
from ..loading.iterators import Cursor
from ..loading.loaders import Entry, entry_of
from ..redaction import redacted
from .accelerate import base_of

EPOCHS = 100  # that are told of one by one; then every tenth, and the last
PLAIN = (int, float, bool, str)
LONGEST_SETTING = 200  # characters of a setting
MANY = 64  # callbacks

WHAT = "callback"
HOOKS = 128  # of which each has totals of its own; a program that makes up classes has the rest in none
NOTED = 100  # times that an exception left one
LONGEST_MESSAGE = 300  # characters of a message
WRAPPERS = 4  # decorators around a hook, as `rank_zero_only`


class Run:
    """One call of a trainer: fit, train, test …"""

    def __init__(self, recorder: Recorder, facts: dict[str, Any], frame: FrameType | None) -> None:
        _count.append(None)
        self.number, self.recorder, self.start = len(_count), recorder, clock()
        self.what = facts.get("what", "")
        self.epochs = self.validations = self.short = self.missed = 0
        self.validated = 0  # `validations` when the newest epoch began
        self.phases: dict[str, OpenPhase | None] = {}
        self.tells(**facts, where=user_line(frame) if frame is not None else None)

    def tells(self, **facts: Any) -> None:
        """Add to what is known of it."""
        if self.recorder is process.recorder:
            text = self.recorder.intern(as_json(facts, str))
            self.recorder.note(Kind.FRAMEWORK, self.number, clock(), 0, text)

    def epoch_ends(self, delivered: int | None, *, short: bool = False, due: bool = False) -> None:
        """`short`: there were fewer batches than announced. `due`: it would have validated at its end."""
        self.epochs += 1
        self.short += short
        self.missed += short and due and self.validations == self.validated
        self.validated = self.validations
        if self.epochs <= EPOCHS or not self.epochs % 10:
            self.tells(**self._progress(), **({} if delivered is None else {"delivered": delivered}))

    def _progress(self) -> dict[str, int]:
        names = ("epochs", "validations", "short", "missed")
        return {name: getattr(self, name) for name in names}

    def ends(self) -> None:
        if self.recorder is process.recorder:
            for name in list(self.phases):
                self.phase_ends(name)
            text = self.recorder.intern(json.dumps(self._progress()))
            self.recorder.note(Kind.FRAMEWORK, self.number, self.start, clock() - self.start, text)

    def phase(self, name: str) -> None:
        if self.recorder is process.recorder and self.phases.get(name) is None:
            self.phases[name] = phase_begins(self.recorder, name)

    def phase_ends(self, name: str) -> None:
        said = self.phases.pop(name, None)
        if said is not None and self.recorder is process.recorder:
            phase_ends(self.recorder, said)


def begin_run(facts: dict[str, Any], frame: FrameType | None) -> Run | None:
    """None when nothing records."""
    recorder = process.recording(ROLE_MAIN)
    return None if recorder is None else Run(recorder, facts, frame)


def version_of(module: str) -> str:
    found = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
    return found if type(found) is str else ""


def settings_of(owner: object, names: Iterable[str]) -> dict[str, Any]:
    """Those of these attributes that are plain values; of an enumeration its value."""
    own = attributes_of(owner)
    found = {name: _plain(own[name]) for name in names if name in own}
    return {name: value for name, value in found.items() if type(value) in PLAIN}


def _plain(value: Any) -> Any:
    if any(one.__module__ == "enum" for one in type(value).__mro__):
        value = value.value
    if type(value) is str:
        return redacted(value)[:LONGEST_SETTING]
    return str(value) if type(value) is float and value in (float("inf"), float("-inf")) else value


def own_hooks(owner: object, prefixes: tuple[str, ...], library: str = "") -> list[str]:
    """Of its class and those above it that do something, and functions that were put into the object itself.

    `library`: what its classes have is left out.
    """
    found = [name for name, value in attributes_of(owner).items() if name.startswith(prefixes) and callable(value)]
    for kind in type(owner).__mro__:
        if kind.__module__.partition(".")[0] != library:
            found += [name for name, value in vars(kind).items() if name.startswith(prefixes) and callable(value)]
    known = dict.fromkeys(found)
    return [name for name in known if not does_nothing(function_of(owner, name))]


def function_of(owner: object, name: str) -> object:
    """As the class, or the object, has it: no property of the user's is asked."""
    if name in attributes_of(owner):
        return attributes_of(owner)[name]
    return next((vars(kind)[name] for kind in type(owner).__mro__ if name in vars(kind)), None)


def empty_hooks(owner: object, names: Iterable[str]) -> list[str]:
    return [name for name in names if does_nothing(function_of(owner, name))]


def callbacks_of(callbacks: object, prefixes: tuple[str, ...]) -> list[dict[str, Any]]:
    found = []
    for one in list(callbacks)[:MANY] if isinstance(callbacks, list) else ():
        hooks = own_hooks(one, prefixes)
        places = [place for name in hooks if (place := place_of(function_of(one, name))) is not None]
        found.append({"name": name_of(one), "hooks": hooks, "where": places[0] if places else None})
    return found


def takes_ahead(loader: object) -> None:
    """The trainer asks for the next batch before it trains on the one before, and says when it is through."""
    entry = _entry(loader)
    if entry is not None:
        entry.handed_on = True


def is_complete(loader: object) -> bool:
    """The pass is over if the loader has given all that there are: a trainer that knows their number asks no more."""
    entry = _entry(loader)
    cursor = entry.cursor if entry is not None else None
    if entry is None or cursor is None or not cursor.arrived or cursor.recorder is not process.recorder:
        return True
    if not cursor.exhausted and not (entry.length and cursor.batch >= entry.length):
        return False
    process.settle()
    cursor.over(clock())
    entry.handed_on = False
    return True


def is_through(loader: object) -> int | None:
    """The trainer has done with this pass, whether there are more batches or not. How many came, if there are none."""
    entry = _entry(loader)
    if is_complete(loader):
        return entry.cursor.batch if entry is not None and entry.cursor is not None else None
    if entry is not None and entry.cursor is not None:
        _left(entry, entry.cursor)
        entry.handed_on = False
    return None


def _left(entry: Entry, cursor: Cursor) -> None:
    """After fewer batches than there are: it was told to. Said like the end of workers, which may come much later."""
    now = clock()
    process.settle()
    cursor.body_ends(now)
    cursor.recorder.event(Kind.SHUTDOWN, entry.number, now, 0, cursor.number)


def _entry(loader: object) -> Entry | None:
    base = base_of(loader)
    return entry_of(base) if "dataset" in attributes_of(base) else None


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
            text = f"{type(error).__name__}: {message_of(error)}"[:LONGEST_MESSAGE]
            recorder.note(Kind.CALL, self.key, self.start, spent, 1, recorder.intern(text))
        recorder.board(self.slot, Kind.CALL, self.key, now)
        recorder.cost(clock() - now)


def begin_hook(owner: object, hook: str, function: object) -> Hook | None:
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


_count: list[None] = []

NOTHING = (_nothing, _documented)  # what compilers of this Python make of that
hooks = Hooks()
