"""What is known of each DataLoader of this process, and where each of its iterators stands."""

from __future__ import annotations

import json
from typing import Any

from . import exits
from .describe import describe_iterator, describe_loader, type_name
from .exceptions import message_of
from .format import ROLE_MAIN, Kind
from .process import process, write_rank
from .recorder import Recorder, clock
from .weak import ByIdentity


class Entry:
    """One DataLoader: its number, how often it was iterated, how much it gave."""

    def __init__(self, number: int, description: str) -> None:
        self.number = number
        self.description = description
        self.recorder: Recorder | None = None
        self.passes = self.batches = self.steps = 0
        self.length = 0
        self.dataset_length = -1
        self.begun = 0
        self.pids: tuple[int, ...] = ()
        self.cursor: Cursor | None = None  # of the newest pass

    def bind(self, recorder: Recorder) -> None:
        """Describe the loader in this process's recording; again in a forked child that goes on using it."""
        self.describe(recorder)
        self.slot = recorder.board_slot(Kind.LOADER, self.number)
        self.waits = recorder.total_slot(Kind.WAIT, self.number)
        self.first_waits = recorder.total_slot(Kind.FIRST_WAIT, self.number)
        self.bodies = recorder.total_slot(Kind.BODY, self.number)
        self.starts = recorder.total_slot(Kind.ITERATOR, self.number)
        self.recorder = recorder  # last: a signal handler may raise on any line above

    def describe(self, recorder: Recorder) -> None:
        """Also once a pass: a loader that is used keeps its description among the notes."""
        recorder.note(Kind.LOADER, self.number, clock(), 0, recorder.intern(self.description))
        if self.length:
            recorder.note(Kind.LENGTH, self.number, clock(), 0, self.dataset_length + 1, self.length + 1)

    def note_length(self, length: int, dataset: int = -1) -> None:
        if self.recorder is not None and (length != self.length or dataset > self.dataset_length):
            self.length, self.dataset_length = length, max(dataset, self.dataset_length)
            self.describe(self.recorder)

    def begin_pass(self) -> None:
        self.begun = clock()
        if self.cursor is not None and self.cursor.batch == 1 and self.recorder is not None:
            self.cursor.body_ends(self.begun)  # next(iter(loader)) ends a step like this
        self.passes += 1
        recorder = self.recorder
        if recorder is not None:
            write_rank(recorder)
            self.describe(recorder)
            recorder.board(self.slot, Kind.ITERATOR, self.number, self.begun, 0, self.passes, self.batches, self.steps)

    def pass_failed(self, error: Exception) -> None:
        recorder = self.recorder
        if recorder is not None:
            message = recorder.intern(f"{type(error).__name__}: {message_of(error)}"[:500])
            recorder.note(Kind.ITERATOR_FAILED, self.number, self.begun, clock() - self.begun, self.passes, message)

    def pass_begun(self, iterator: Any) -> None:
        now = clock()
        recorder = self.recorder
        if recorder is None or not hasattr(iterator, "_num_workers"):
            return
        self.cursor = iterator._unstuck = Cursor(self)
        workers = getattr(iterator, "_workers", ())
        recorder.event(Kind.ITERATOR, self.number, self.begun, now - self.begun, self.passes, len(workers))
        recorder.total(self.starts, now - self.begun)
        pids = tuple(worker.pid for worker in workers)
        if pids != self.pids:  # persistent workers stay the same
            self.pids = pids
            exits.has_workers(iterator)
            for number, pid in enumerate(pids):
                recorder.note(Kind.WORKER, self.number, now, 0, pid, number)
        recorder.cost(clock() - now)


class Cursor:
    """Where one iterator stands. A step is what lies between two calls of its `__next__`."""

    __slots__ = ("arrived", "batch", "entry", "number", "outer", "recorder", "started", "steps_seen")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.recorder = entry.recorder
        self.number = entry.passes
        self.batch = self.started = self.arrived = self.outer = 0
        self.steps_seen = process.optimizer_steps

    def waits(self) -> None:
        start = clock()
        entry = self.entry
        recorder = process.recorder
        if recorder is not self.recorder:
            recorder = self._rebind()
        if recorder is None:
            return
        if self.arrived:
            self.body_ends(start)
        self.started = start
        self.outer, process.loader = process.loader, entry.number
        recorder.board(entry.slot, Kind.WAIT, entry.number, start, self.batch, self.number, entry.batches, entry.steps)
        recorder.cost(clock() - start)

    def body_ends(self, now: int) -> None:
        entry = self.entry
        if self.recorder is not None and self.arrived:
            self.recorder.total(entry.bodies, now - self.arrived)
            entry.steps += process.optimizer_steps - self.steps_seen
            self.arrived = 0

    def _rebind(self) -> Recorder | None:
        """The process has forked in mid-epoch, and this copy of the iterator lives on in the child."""
        recorder = process.recording(ROLE_MAIN)
        if recorder is not None and self.entry.recorder is not recorder:
            self.entry.bind(recorder)
        self.recorder = recorder
        return recorder

    def arrives(self) -> None:
        now = clock()
        entry, recorder = self.entry, self.recorder
        process.loader = self.outer
        if recorder is None:
            return
        wait = now - self.started
        recorder.event(Kind.WAIT, entry.number, self.started, wait, self.batch, self.number)
        recorder.total(entry.waits if self.batch else entry.first_waits, wait)
        self.batch += 1
        entry.batches += 1
        self.arrived = now
        self.steps_seen = process.optimizer_steps
        recorder.board(entry.slot, Kind.BODY, entry.number, now, self.batch, self.number, entry.batches, entry.steps)
        recorder.cost(clock() - now)

    def ends(self) -> None:
        now = clock()
        entry, recorder = self.entry, self.recorder
        process.loader = self.outer
        if recorder is not None:
            recorder.event(Kind.PASS_END, entry.number, self.started, now - self.started, self.batch, self.number)
            recorder.board(
                entry.slot, Kind.PASS_END, entry.number, now, self.batch, self.number, entry.batches, entry.steps
            )

    def fails(self, error: Exception) -> None:
        """An exception is leaving `__next__`: learn who died before the parent's own clean-up reaps them."""
        process.loader = self.outer
        if self.recorder is not None:
            exits.note_dead_workers(exits.PATIENCE if isinstance(error, BROKEN) else 0)


def adopt(iterator: Any) -> Cursor | None:
    """For an iterator that was alive before recording began, or whose loader has an `__iter__` of its own."""
    recorder = process.recording(ROLE_MAIN)
    if recorder is None:
        return None
    entry = _new_entry(describe_iterator(iterator))
    entry.bind(recorder)
    entry.passes = 1
    cursor = iterator._unstuck = Cursor(entry)
    cursor.batch = entry.batches = getattr(iterator, "_num_yielded", 0)
    if getattr(iterator, "_workers", None):
        exits.has_workers(iterator)
    return cursor


def entry_of(loader: Any) -> Entry | None:
    """The loader's entry, made and described at first sight. None when nothing records."""
    recorder = process.recording(ROLE_MAIN)
    if recorder is None:
        return None
    entry = _entries.get(loader)
    if entry is None:
        entry = _new_entry(describe_loader(loader))
        _entries.set(loader, entry)
    if entry.recorder is not recorder:
        entry.bind(recorder)
    return entry


def note_length(loader: Any, length: int) -> None:
    entry = entry_of(loader)
    if entry is not None:
        entry.note_length(length)


def begin_pass(loader: Any) -> None:
    entry = entry_of(loader)
    if entry is not None:
        entry.begin_pass()


def pass_failed(loader: Any, error: Exception) -> None:
    entry = entry_of(loader)
    if entry is not None:
        entry.pass_failed(error)


def pass_begun(loader: Any, iterator: Any) -> None:
    entry = entry_of(loader)
    if entry is None:
        return
    entry.pass_begun(iterator)
    # torch's own samplers ask the dataset for its length themselves; of others it is not known that they could.
    if entry.dataset_length < 0 and _is_standard(loader.sampler) and _is_standard(loader._index_sampler):
        entry.note_length(len(loader._index_sampler), len(loader.dataset))


def _is_standard(sampler: object) -> bool:
    kind = type(sampler)
    return kind.__module__ == "torch.utils.data.sampler" and kind.__name__ in STANDARD_SAMPLERS


def _new_entry(description: dict[str, Any]) -> Entry:
    """A loader that is made anew every epoch, at the same line and in the same way, is one loader to its user."""
    text = json.dumps(description, ensure_ascii=False, default=type_name)
    entry = _gone.pop(text, None)
    if entry is None:
        _count.append(None)
        entry = Entry(len(_count), text)
    return entry


def _when_gone(entry: Entry) -> None:
    if len(_gone) >= REMEMBERED:
        _gone.clear()
    _gone[entry.description] = entry


STANDARD_SAMPLERS = ("SequentialSampler", "RandomSampler", "BatchSampler")
BROKEN = (OSError, EOFError, RuntimeError)  # what a dying worker looks like from here, a moment before its status shows
_entries: ByIdentity[Entry] = ByIdentity(_when_gone)
REMEMBERED = 64  # a description may hold a counter, and then no two are the same
_gone: dict[str, Entry] = {}  # by description: loaders that no longer exist
_count: list[None] = []
