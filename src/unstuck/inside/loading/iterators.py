"""Where one iterator of a DataLoader stands, and how long it takes to end its workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import format as f
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..failures import exits
from ..failures.exceptions import message_of, remember, used_up
from ..format import Kind
from .contents import look_of

if TYPE_CHECKING:
    from .loaders import Entry

FIRST = 4  # batches of a loader's first pass that are told one by one
MANY = 64  # steps: what is remembered is written down
BROKEN = (OSError, EOFError, RuntimeError)  # what a dying worker looks like from here, a moment before its status shows


class Cursor:
    """Where one iterator stands. A step is what lies between two calls of its `__next__`."""

    __slots__ = (
        "arrived", "batch", "entry", "exhausted", "number", "phase", "recorder", "steps_seen", "words",
    )  # fmt: skip

    def __init__(self, entry: Entry, recorder: Recorder) -> None:
        self.entry = entry
        self.number = entry.passes
        self.batch = self.arrived = 0
        self.exhausted = False
        self.bind(recorder)

    def bind(self, recorder: Recorder) -> None:
        self.words = recorder.words
        self.phase = self.entry.live + f.L_PHASE
        self.steps_seen = process.optimizer_steps
        self.recorder = recorder  # last: a signal handler may raise on any line above

    def arrives(self, start: int) -> None:
        """A batch is here. All in one place, because this runs for every step there is.

        What is going on is on the board at once; that it was so is written down together with the steps around it,
        after a tenth of a second at the latest: in one go, that costs a quarter.
        """
        now = clock()
        words, batch, entry, phase, arrived = self.words, self.batch, self.entry, self.phase, self.arrived
        pending = entry.pending
        pending.append((start, batch, self.number, now, arrived))
        self.arrived = now
        self.batch = batch + 1
        entry.batches = batches = entry.batches + 1
        words[phase + 1] = batches
        steps = process.optimizer_steps
        if arrived and steps != self.steps_seen:
            entry.steps += steps - self.steps_seen
            words[phase + 2] = entry.steps
        self.steps_seen = steps
        words[phase] = now << 2 | 1  # LOADER_BODY
        if not batch & 7:
            entry.spent += (clock() - now) << 3  # one in eight stands for all
        if now > entry.due or len(pending) >= MANY:
            entry.settle()

    def early(self, start: int, data: Any) -> None:
        """One of the first batches that the loader ever gave: how long it was waited for, what it looks like."""
        recorder, batch = self.recorder, self.batch - 1
        looks = recorder.intern(json.dumps(look_of(data), ensure_ascii=False)) if not batch else 0
        recorder.note(Kind.EARLY, self.entry.number, start, self.arrived - start, batch, looks)

    def body_ends(self, now: int) -> None:
        """The last body of a pass, which no further batch follows."""
        entry = self.entry
        if self.arrived:
            self.recorder.total(entry.bodies, now - self.arrived)
            entry.steps += process.optimizer_steps - self.steps_seen
            self.words[self.phase + 2] = entry.steps
            self.arrived = 0

    def ends(self, start: int) -> None:
        """There are no more batches. Where somebody else hands them on, one behind, the last body is still to come."""
        self.body_ends(start)
        process.settle()
        if self.entry.handed_on and self.batch:
            self.arrived, self.steps_seen, self.exhausted = clock(), process.optimizer_steps, True
            self.words[self.phase] = self.arrived << 2 | 1  # LOADER_BODY
        else:
            self.over(start)

    def over(self, start: int) -> None:
        """The pass has come to its end."""
        now = clock()
        entry, recorder = self.entry, self.recorder
        self.body_ends(now)
        self.exhausted = False
        recorder.event(Kind.PASS_END, entry.number, start, now - start, self.batch, self.number, entry.steps)
        entry.facts.pass_ends(recorder, self.number, self.batch, now, entry.steps)
        entry.show(Kind.PASS_END, now, self.batch)

    def fails(self, error: Exception) -> None:
        """An exception is leaving `__next__`: learn who died before the parent's own clean-up reaps them."""
        process.settle()
        facts = used_up([error], [message_of(error)])
        if facts:  # counted now: on its way up the error may free what was kept
            remember(error, facts)
        exits.note_dead_workers(exits.PATIENCE if isinstance(error, BROKEN) else 0)


class Shutdown(NamedTuple):
    """One that is going on."""

    entry: Entry
    recorder: Recorder
    started: int
    version: int  # of the board entry that says so
    number: int  # of the pass; 0: it goes on without them
    workers: int


def shutdown_begins(iterator: Any) -> Shutdown | None:
    cursor: Cursor | None = iterator._unstuck
    if cursor is None or cursor.recorder is not process.recorder:  # a fork's copy of its parent's iterator
        return None
    entry, recorder, now = cursor.entry, cursor.recorder, clock()
    entry.show(Kind.SHUTDOWN, now, cursor.batch)
    workers = len(getattr(iterator, "_workers", ()))
    number = 0 if entry.handed_on and _is_exhausted(iterator) else cursor.number
    return Shutdown(entry, recorder, now, recorder.words[entry.live], number, workers)


def _is_exhausted(iterator: Any) -> bool:
    """All batches it asked for have come: it ends by itself, and what is handed on is still to be used."""
    return bool(getattr(iterator, "_rcvd_idx", 0) >= getattr(iterator, "_send_idx", 0))


def shutdown_ends(shutdown: Shutdown) -> None:
    """What the board said before is true again: of an iterator that is thrown away, a newer one may be in use."""
    entry, recorder, started = shutdown.entry, shutdown.recorder, shutdown.started
    took = clock() - started
    recorder.board_back(entry.slot, shutdown.version)
    recorder.total(recorder.total_slot(Kind.SHUTDOWN, entry.number), took)
    recorder.event(Kind.SHUTDOWN, entry.number, started, took, shutdown.number, shutdown.workers)
