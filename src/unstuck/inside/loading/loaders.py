"""What is known of each DataLoader of this process, and what is told of it with every pass."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from operator import sub
from typing import Any

from ..core import garbage, versions
from ..core.objects import ByIdentity, as_json, attributes_of
from ..core.process import process
from ..core.ranks import write_rank
from ..core.recorder import Recorder, clock
from ..failures import exits
from ..failures.exceptions import message_of, remember
from ..format import MODE_BITS, ROLE_MAIN, Kind
from . import buckets, sampling, thread_settings
from .dataset_state import numbers
from .describe import PARAMETERS, describe_iterator, describe_loader, start_method, type_name
from .fetches import belongs_to
from .iterators import Cursor
from .passes import modes, skipping_iterator_made, skips_one_more
from .pickling import culprits
from .sampling import told_batches, told_lengths

Describe = Callable[[Any], dict[str, Any]]

STATES = 64
PASSES, CHANGES = 16, 240  # ends of passes that are told: the first, and those that differ from the one before
SELDOM = 1_000_000_000  # nanoseconds between two beginnings that are noted: nobody's epoch is so short


class Entry:
    """One DataLoader: its number, how often it was iterated, how much it gave."""

    __slots__ = (
        "batches", "begun", "bodies", "cursor", "dataset_length", "description", "drawing", "drawn", "due", "facts",
        "first_waits", "handed_on", "length", "line", "live", "modes", "number", "parameters", "passes",
        "pending", "pids", "recorder", "settings", "slot", "spent", "starts", "steps", "waits",
    )  # fmt: skip

    def __init__(self, number: int, line: str) -> None:
        self.number = number
        self.line = line  # where it was made, and over which kind of dataset
        self.settings = self.description = ""
        self.parameters: tuple[object, ...] = ()
        self.facts = LoaderFacts(number)
        self.recorder: Recorder | None = None
        self.passes = self.batches = self.steps = 0
        self.length = 0
        self.dataset_length = -1
        self.begun = self.spent = self.modes = 0
        self.handed_on = False  # by somebody who is one batch behind, and says when a pass is over
        self.pids: tuple[int, ...] = ()
        self.cursor: Cursor | None = None  # of the newest pass
        # Steps that are not written down yet: asked for a batch, batch, pass, when it came, when the one before had.
        self.pending: list[tuple[int, int, int, int, int]] = []
        self.drawn: list[int] = []  # nanoseconds in its sampler, not written down yet
        self.due = 0

    def is_now(self, settings: str, description: dict[str, Any]) -> None:
        """Made a moment ago, or taken over by a loader with other settings."""
        self.parameters = tuple(description[name] for name in PARAMETERS)
        self.settings, self.description = settings, as_json(description, type_name)
        self.length, self.dataset_length = 0, -1
        if self.recorder is not None:
            self.describe(self.recorder)

    def bind(self, recorder: Recorder) -> None:
        """Describe the loader in this process's recording; again in a forked child that goes on using it."""
        self.describe(recorder)
        self.slot = recorder.board_slot(Kind.LOADER, self.number)
        self.live = self.slot >> 3
        self.waits = recorder.total_slot(Kind.WAIT, self.number)
        self.first_waits = recorder.total_slot(Kind.FIRST_WAIT, self.number)
        self.bodies = recorder.total_slot(Kind.BODY, self.number)
        self.starts = recorder.total_slot(Kind.ITERATOR, self.number)
        self.drawing = recorder.total_slot(Kind.DRAWING, self.number)
        self.pending, self.drawn = [], []  # after a fork they have what belongs into the parent's recording
        process.remembered.append(self.settle)
        self.recorder = recorder  # last: a signal handler may raise on any line above

    def settle(self) -> None:
        """Write down the steps that are only remembered so far."""
        recorder = self.recorder
        if recorder is not None and self.drawn:
            drawn, self.drawn = self.drawn, []
            recorder.totals(self.drawing, drawn)
        if recorder is None or not self.pending:
            return
        begun = clock()
        self.due = begun + SOON
        pending, self.pending = self.pending, []
        starts, batches, passes, arrived, before = zip(*pending, strict=True)
        waits = list(map(sub, arrived, starts))
        bodies = [start - came if came else 0 for start, came in zip(starts, before, strict=True)]
        recorder.events(Kind.WAIT, self.number, starts, waits, batches, passes, bodies)
        recorder.totals(self.waits, [wait for wait, batch in zip(waits, batches, strict=True) if batch])
        recorder.totals(self.first_waits, [wait for wait, batch in zip(waits, batches, strict=True) if not batch])
        recorder.totals(self.bodies, [body for body in bodies if body])
        recorder.cost(self.spent + clock() - begun, len(pending))
        self.spent = 0
        garbage.write(recorder)

    def show(self, kind: int, since: int, batch: int) -> None:
        """Put what happens between batches on the board."""
        recorder = self.recorder
        if recorder is not None:
            recorder.board(self.slot, kind, self.number, since, batch, self.passes, self.batches, self.steps)

    def describe(self, recorder: Recorder) -> None:
        """Also once a pass: a loader that is used keeps its description among the notes."""
        recorder.note(Kind.LOADER, self.number, clock(), 0, recorder.intern(self.description))
        if self.length or self.dataset_length >= 0:  # an empty loader has a length, too
            recorder.note(Kind.LENGTH, self.number, clock(), 0, self.dataset_length + 1, self.length + 1)

    def note_length(self, length: int, dataset: int = -1) -> None:
        if self.recorder is not None and (length != self.length or dataset > self.dataset_length):
            self.length, self.dataset_length = length, max(dataset, self.dataset_length)
            self.describe(self.recorder)

    def begin_pass(self) -> None:
        self.begun = clock()
        recorder = self.recorder
        if recorder is None:
            return
        if self.cursor is not None and self.cursor.batch == 1 and self.cursor.recorder is recorder:
            self.cursor.body_ends(self.begun)  # next(iter(loader)) ends a step like this
        self.settle()
        self.passes += 1
        garbage.pass_begins(recorder)
        thread_settings.pass_begins(recorder)
        versions.tell(recorder)
        self.modes = modes.bits()
        write_rank(recorder)
        self.describe(recorder)
        self.show(Kind.ITERATOR, self.begun, 0)

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
        self.cursor = iterator._unstuck = Cursor(self, recorder)
        belongs_to(getattr(iterator, "_dataset_fetcher", None), self.number)  # with num_workers=0
        thread_settings.pass_begun(recorder, self.number, iterator)
        self.settle()  # what was drawn from the sampler meanwhile
        self.show(Kind.LOADER, now, 0)
        workers = getattr(iterator, "_workers", ())
        before = self.steps << MODE_BITS | self.modes
        recorder.event(Kind.ITERATOR, self.number, self.begun, now - self.begun, self.passes, len(workers), before)
        self.facts.pass_begun(recorder, self.begun, self.passes, len(workers), before)
        recorder.total(self.starts, now - self.begun)
        pids = tuple(worker.pid for worker in workers)
        if pids != self.pids:  # persistent workers stay the same
            self.pids = pids
            exits.has_workers(iterator)
            self.facts.workers_started(recorder)
            for number, pid in enumerate(pids):
                recorder.note(Kind.WORKER, self.number, now, 0, pid, number)
        recorder.cost(clock() - now)


class LoaderFacts:
    """Of one loader."""

    __slots__ = ("begun", "changes", "last", "number", "states", "told", "written")

    def __init__(self, number: int) -> None:
        self.number = number
        self.told = ""
        self.states = self.changes = self.begun = 0
        self.last = -1
        self.written: int | None = None  # bytes this process had written before workers were started

    def pass_begins(self, recorder: Recorder, loader: Any, passes: int) -> None:
        own = attributes_of(loader)
        self.written = _written() if own.get("num_workers") and start_method(own) in ("spawn", "forkserver") else None
        text = json.dumps({"numbers": numbers(own.get("dataset"))}, ensure_ascii=False)
        if text != self.told and self.states < STATES:
            self.told = text
            self.states += 1
            recorder.note(Kind.STATE, self.number, clock(), 0, passes, 0, recorder.intern(text))
        sampling.pass_begins(recorder, self.number, own, passes)
        buckets.pass_begins(recorder, self.number, own.get("dataset"))

    def workers_started(self, recorder: Recorder) -> None:
        now = _written() if self.written is not None else None
        if now is not None and self.written is not None:
            recorder.note(Kind.SENT, self.number, clock(), 0, now - self.written)

    def pass_begun(self, recorder: Recorder, start: int, number: int, workers: int, before: int) -> None:
        """The ring has it too, but not for long: of a long epoch it has no beginning any more."""
        if number <= PASSES or start - self.begun > SELDOM:
            self.begun = start
            recorder.note(Kind.ITERATOR, self.number, start, 0, number, workers, before)

    def pass_ends(self, recorder: Recorder, number: int, batches: int, now: int, steps: int) -> None:
        changed = batches != self.last and self.changes < CHANGES
        self.last = batches
        if number <= PASSES or changed:
            self.changes += number > PASSES
            recorder.note(Kind.PASS_END, self.number, now, 0, batches, number, steps)


def _written() -> int | None:
    """Bytes that this process has written so far, into whatever it was."""
    try:
        with open("/proc/self/io", "rb") as file:
            return int(file.read().split(b"wchar: ", 1)[1].split(None, 1)[0])
    except (OSError, ValueError, IndexError):
        return None


class Making:
    """Whose iterator is being made: workers are dealt their first indices before anybody knows it."""

    __slots__ = ("entry",)

    def __init__(self) -> None:
        self.entry: Entry | None = None


def renew(iterator: Any) -> Cursor | None:
    """A cursor that writes into this process's recording. None when nothing records.

    For an iterator that was alive before recording began, for one whose loader has its own `__iter__`, and for the
    copy of one that lives on in a child after a fork in mid-epoch.
    """
    recorder = process.recording(ROLE_MAIN)
    if recorder is None:
        return None
    cursor: Cursor | None = getattr(iterator, "_unstuck", None)
    if cursor is not None:
        if cursor.entry.recorder is not recorder:
            cursor.entry.bind(recorder)
        cursor.bind(recorder)
        belongs_to(getattr(iterator, "_dataset_fetcher", None), cursor.entry.number)
        return cursor
    if making.entry is not None:  # in its own constructor: StatefulDataLoader goes to where a saved state was
        skips_one_more(recorder, making.entry.number, FORWARDS, getattr(iterator, "_num_yielded", 0))
        return None
    entry = _new_entry(describe_iterator(iterator))
    entry.bind(recorder)
    entry.passes = 1
    cursor = Cursor(entry, recorder)
    belongs_to(getattr(iterator, "_dataset_fetcher", None), entry.number)
    cursor.batch = entry.batches = getattr(iterator, "_num_yielded", 0)
    if getattr(iterator, "_workers", None):
        exits.has_workers(iterator)
    entry.show(Kind.LOADER, clock(), cursor.batch)
    iterator._unstuck = cursor
    return cursor


def entry_of(loader: Any, describe: Describe = describe_loader) -> Entry | None:
    """The loader's entry, made and described at first sight. None when nothing records."""
    recorder = process.recording(ROLE_MAIN)
    if recorder is None:
        return None
    entry = _entries.get(loader)
    if entry is None:
        entry = _new_entry(describe(loader))
        _entries.set(loader, entry)
    if entry.recorder is not recorder:
        entry.bind(recorder)
    return entry


def _as_it_is_now(loader: Any) -> Entry | None:
    """The same at the beginning of a pass. torch lets `loader.num_workers = 4` pass: then it is another loader."""
    entry, own = entry_of(loader), attributes_of(loader)
    if entry is None or "num_workers" not in own:  # a loader of another library
        return entry
    now = tuple(plain(own.get(name)) for name in PARAMETERS)
    if now != entry.parameters:
        _when_gone(entry)
        changed = {**json.loads(entry.description), **dict(zip(PARAMETERS, now, strict=True))}
        _entries.set(loader, _new_entry(changed))
        entry = entry_of(loader)
    return entry


def done_with(loader: Any) -> None:
    """A framework makes a new one every time and keeps the old ones for nothing: they are one to its user."""
    entry = _entries.get(loader)
    if entry is not None and entry not in _gone.get(entry.line, ()):
        _when_gone(entry)


def note_length(loader: Any, length: int) -> None:
    entry = entry_of(loader)
    if entry is not None:
        entry.note_length(length)


def begin_pass(loader: Any) -> None:
    entry = _as_it_is_now(loader)
    if entry is not None and entry.recorder is not None:
        entry.begin_pass()
        making.entry = entry
        entry.facts.pass_begins(entry.recorder, loader, entry.passes)


def pass_failed(loader: Any, error: Exception) -> None:
    making.entry = None
    entry = entry_of(loader)
    if entry is not None:
        entry.pass_failed(error)
        remember(error, {"unpicklable": culprits(loader, error)})


def note_resumed(loader: Any) -> None:
    entry = entry_of(loader)
    if entry is not None and entry.recorder is not None:
        entry.recorder.note(Kind.RESUMED, entry.number, clock(), 0)


def pass_begun(loader: Any, iterator: Any) -> None:
    making.entry = None
    entry = entry_of(loader)
    if entry is None:
        return
    entry.pass_begun(iterator)
    if entry.recorder is not None:
        skipping_iterator_made(entry.recorder, entry.number)


def note_told_length(iterator: Any) -> None:
    """Its sampler has asked for the length of a dataset a moment ago: of this one, most often."""
    told_lengths.fresh = False
    own = attributes_of(iterator)
    cursor: Cursor | None = own.get("_unstuck")
    entry = making.entry if cursor is None else cursor.entry
    known = told_batches(own.get("_index_sampler"), own.get("_dataset"))
    if entry is not None and known is not None:
        entry.note_length(*known)


def _new_entry(description: dict[str, Any]) -> Entry:
    """A loader that is made again every epoch, at the same line with the same settings, is one to its user.

    With other settings it is another one. A program that makes up settings without end has so many for each line; then
    the one that is gone for longest is described again, as what it is now.
    """
    description.update({name: plain(description.get(name)) for name in PARAMETERS})
    line = _in_words(description, ("created", "type", "dataset_inner"))
    settings = _in_words(description, SETTINGS)
    gone = _gone.get(line, [])
    alike = next((entry for entry in gone if entry.settings == settings), None)
    if alike is None and (not gone or _made.get(line, 0) < SETTINGS_KEPT):
        _count.append(None)
        _made[line] = _made.get(line, 0) + 1
        alike = Entry(len(_count), line)
    elif alike is None:
        alike = gone[0]
    if alike in gone:
        gone.remove(alike)  # the first that went: who makes two of a kind every time makes them in the same order
    if alike.settings != settings:
        alike.is_now(settings, description)
    return alike


def plain(value: object) -> object:
    """A setting as a number that JSON knows. Of numpy's numbers it is what they stand for, of anything else unknown."""
    if type(value).__module__ == "numpy" and hasattr(type(value), "item"):
        value = value.item()  # type: ignore[attr-defined]
    return value if type(value) in (bool, int, float) and math.isfinite(value) else None  # type: ignore[arg-type]


def _in_words(description: dict[str, Any], names: tuple[str, ...]) -> str:
    return json.dumps([description.get(name) for name in names], default=type_name)


def _when_gone(entry: Entry) -> None:
    _gone.setdefault(entry.line, []).append(entry)


SETTINGS = (
    *PARAMETERS, "context", "shuffle", "sampler", "batch_sampler", "collate_fn", "worker_init_fn", "iterable",
)  # fmt: skip
SETTINGS_KEPT = 16  # that are told apart for each line: a recording has room for some fifty loaders
FORWARDS = "StatefulDataLoader.load_state_dict"  # who passes over batches before the iterator is handed out
SOON = 100_000_000  # nanoseconds: what is remembered is written down
making = Making()
_entries: ByIdentity[Entry] = ByIdentity(_when_gone)
_gone: dict[str, list[Entry]] = {}  # loaders that no longer exist, by the line that made them
_made: dict[str, int] = {}  # how many each line has made that were told apart
_count: list[None] = []
