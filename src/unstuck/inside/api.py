"""What user code may say of itself. Harmless, and nearly free, when nothing records."""

from __future__ import annotations

import json
import math
import os
from itertools import islice
from pathlib import PurePath
from types import TracebackType
from typing import Any, NamedTuple

from . import format as f
from .core.guard import is_ours
from .core.objects import key_name
from .core.process import process
from .core.recorder import Recorder, clock
from .failures.exceptions import remember
from .format import H_ROLE, ROLE_WORKER, Kind
from .loading import stages
from .loading.fetches import in_sample
from .loading.stages import Stage, Taken
from .redaction import redacted
from .side_work.loggers import tell_metric

LIMIT = 0.1  # seconds: a step that takes that long once is not noticed
LAST = 10.0  # seconds: nobody minds them at the end of a training
SIZE = 1000  # calls: of scalars that is nothing, of images a gigabyte

NOTED_PHASES = 500  # phases that outlive the ring; one that says so with every step must not push out the other notes
LONGEST_NAME = 80  # characters of a name

ITEMS, DEEP, LONGEST_TEXT = 32, 3, 300
NOTES = 256  # of a process: who tells something with every step is after a metric
BUCKETS = "BUCKETS"
FILES, BATCHES = ("files", "buckets", "bucket_sizes"), ("batches", "batch_indices", "total_batches", "total")


class stage:  # noqa: N801  (used like a function)
    """`with unstuck.stage("decode", item=path):` times a part of the user's own work and says what it is about.

    `with unstuck.stage("decode", item=path) as stage: …; stage.made(volume)` also says what came out: its shape.
    """

    __slots__ = ("before", "item", "known", "name", "recorder", "shape", "started")

    def __init__(self, name: str, item: object = None) -> None:
        self.name = name
        self.item = item
        self.started = 0
        self.before: Taken | None = None
        self.shape = ""
        self.recorder: Recorder | None = None
        self.known: Stage | None = None

    def __enter__(self) -> stage:  # noqa: PYI034  (typing.Self came with Python 3.11)
        self.recorder = recorder = process.recorder
        if recorder is not None:
            try:
                self.known = known = stages.stage_of(recorder, self.name)
                if known.slot is None:
                    known.slot = recorder.board_slot(Kind.STAGE, known.key)
                self.before = known.begins()
                self.started = clock()
                recorder.board_text(known.slot, Kind.STAGE, known.key, self.started, _text(self.item), 1)
                stages.depth.open += 1
            except Exception as error:
                if not is_ours(error):
                    raise
        return self

    def made(self, value: object) -> None:
        """Tell the shape of an array or a tensor that came out of it, where a line for every sample is asked for."""
        if self.known is not None and self.known.detailed:
            self.shape = stages.shape_of(value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder, known = self.recorder, self.known
        stages.depth.open = max(stages.depth.open - 1, 0)
        if recorder is None or recorder is not process.recorder:
            return
        try:
            if error is not None:
                remember(error, {"stage": self.name, "item": _text(self.item)})
            if known is not None and known.slot is not None:
                self._ends(recorder, known, known.slot)
        except Exception as ours:
            if not is_ours(ours):
                raise

    def _ends(self, recorder: Recorder, known: Stage, slot: int) -> None:
        now = clock()
        item = _text(self.item)
        outermost = not stages.depth.open and in_sample(recorder)
        recorder.board(slot, Kind.STAGE, known.key, now)
        known.ends(self.started, now, self.before, item, outermost=outermost)
        if known.detailed:
            known.tells(self.started, now - self.started, item, self.shape, 2)


class phase:  # noqa: N801  (used like a function)
    """`with unstuck.phase("validation"):` says what the training does now, where it does not show. Phases may nest.

    What is called training or validation counts as such, whatever the loops in it look like.
    """

    __slots__ = ("name", "recorder", "said")

    def __init__(self, name: str) -> None:
        self.name = name
        self.recorder: Recorder | None = None
        self.said: OpenPhase | None = None

    def __enter__(self) -> phase:  # noqa: PYI034  (typing.Self came with Python 3.11)
        self.recorder = recorder = process.recorder
        if recorder is not None:
            try:
                self.said = phase_begins(recorder, self.name)
            except Exception as error:
                if not is_ours(error):
                    raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder, said = self.recorder, self.said
        if recorder is None or said is None or recorder is not process.recorder:
            return
        try:
            phase_ends(recorder, said)
        except Exception as ours:
            if not is_ours(ours):
                raise


class OpenPhase(NamedTuple):
    """A phase that goes on."""

    key: int
    number: int  # how often this name came before
    start: int


def phase_begins(recorder: Recorder, name: str) -> OpenPhase | None:
    """None in a worker: what a loader's worker does is no phase of the training."""
    if recorder.words[H_ROLE] == ROLE_WORKER:
        return None
    now = clock()
    if _phase_count.recorder is not recorder:
        _phase_count.recorder, _phase_count.all, _phase_count.by_key = recorder, 0, {}
    key = recorder.intern(redacted(str(name))[:LONGEST_NAME])
    said = OpenPhase(key, _phase_count.by_key.get(key, 0), now)
    _phase_count.by_key[key] = said.number + 1
    _phase_count.all += 1
    _write_phase(recorder, said, 0, 1)
    recorder.board(recorder.board_slot(Kind.PHASE, key), Kind.PHASE, key, now, 1, said.number)
    recorder.cost(clock() - now)
    return said


def phase_ends(recorder: Recorder, said: OpenPhase) -> None:
    now = clock()
    _write_phase(recorder, said, now - said.start, 0)
    recorder.board(recorder.board_slot(Kind.PHASE, said.key), Kind.PHASE, said.key, now, 0, said.number)
    recorder.cost(clock() - now)


def _write_phase(recorder: Recorder, said: OpenPhase, duration: int, lasts: int) -> None:
    write = recorder.note if _phase_count.all <= NOTED_PHASES else recorder.event
    write(Kind.PHASE, said.key, said.start, duration, lasts, said.number)


class _PhaseCount:
    """How often each name came, and phases in all, in the recording they were written into."""

    __slots__ = ("all", "by_key", "recorder")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.all = 0
        self.by_key: dict[int, int] = {}


def _text(item: object) -> str:
    """Only of types whose text is no code of the user's."""
    if type(item) in (str, int, float):
        return str(item)
    if isinstance(item, PurePath):
        return os.fspath(item)
    return "" if item is None else type(item).__name__


def progress(name: str, have: int, need: int = 0, unit: str = "") -> None:
    """Say how far something has come: `unstuck.progress("token buffer", have, need, unit="tokens")`."""
    recorder = process.recorder
    if recorder is None:
        return
    try:
        key = recorder.intern(name)
        slot = recorder.board_slot(Kind.PROGRESS, key)
        first = _first_fill(recorder, slot, key, int(have))
        recorder.board(slot, Kind.PROGRESS, key, clock(), int(have), int(need), recorder.intern(unit), first)
    except Exception as error:
        if not is_ours(error):
            raise


def _first_fill(recorder: Recorder, slot: int, key: int, have: int) -> int:
    """When it was told first, and in the lowest bit whether it has gone down since: then the first time is noted."""
    _, known, since, before, _, _, first = (recorder.board_word(slot, word) for word in range(f.B_D + 1))
    if known != key or not first:
        return clock() << 1
    if first & 1 or have >= before:
        return first
    recorder.note(Kind.PROGRESS, key, first >> 1, since - (first >> 1))
    return first | 1


def metric(step: int | None = None, **values: float) -> None:
    """Tell a number that the training is judged by: `unstuck.metric(loss=0.12, step=300)`.

    Numbers, and tensors of one number on the CPU. A tensor on another device is passed over: to ask for it is to wait.
    """
    recorder = process.recorder
    if recorder is None:
        return
    try:
        told = step + 1 if type(step) is int and step >= 0 else 0
        for name, value in values.items():
            tell_metric(recorder, name, value, told)
    except Exception as error:
        if not is_ours(error):
            raise


def note(tag: str, **facts: Any) -> None:
    """Say something about the training: `unstuck.note("BUCKETS", files={"512x768": 120}, batch_size=4, batches=31)`.

    It stands in the log under its tag. "BUCKETS" is understood: how many files are in every bucket, the batch size, and
    how many batches all buckets make. Plain values are kept, of lists and dicts the first few, of all else the type.
    """
    recorder = process.recorder
    if recorder is None:
        return
    try:
        _write_note(recorder, tag, facts)
    except Exception as error:
        if not is_ours(error):
            raise


def _write_note(recorder: Recorder, tag: str, facts: dict[str, Any]) -> None:
    if _note_count.recorder is not recorder:
        _note_count.recorder, _note_count.count = recorder, 0
    _note_count.count += 1
    if _note_count.count > NOTES:
        return
    text = json.dumps(_plain(facts, 0), ensure_ascii=False)
    recorder.note(Kind.NOTE, recorder.intern(redacted(str(tag))[:80]), clock(), 0, recorder.intern(text))
    if str(tag).upper() == BUCKETS:
        known = json.dumps(_told_buckets(facts), ensure_ascii=False)
        recorder.note(Kind.BUCKETS, 0, clock(), 0, recorder.intern(known))


class _NoteCount:
    """How many there were, by recording."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.count = 0


def _told_buckets(facts: dict[str, Any]) -> dict[str, Any]:
    """Numbers, or lists that are counted."""
    from .loading.buckets import summed  # only who says so pays for it

    files: Any = next((facts[name] for name in FILES if name in facts), {})
    sizes = {key_name(key): _size_of(one) or 0 for key, one in files.items()} if type(files) is dict else {}
    if type(files) in (list, tuple):
        sizes = {str(number): _size_of(one) or 0 for number, one in enumerate(files)}
    known = summed(sizes)
    known.update(
        told=True,
        dataset=facts["dataset"] if type(facts.get("dataset")) is str else "",
        batch_size=_size_of(facts.get("batch_size")),
        batches=next((_size_of(facts[name]) for name in BATCHES if name in facts), None),
    )
    if type(files) is int:
        known["total_files"] = files
    return known


def _size_of(value: Any) -> int | None:
    if type(value) is int:
        return value
    return len(value) if type(value) in (list, tuple, dict, set) else None


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in (int, float, bool, type(None)):
        return value if kind is not float or math.isfinite(value) else str(value)
    if kind is str:
        return redacted(value)[:LONGEST_TEXT]  # before it is cut: half a secret has no shape
    if kind is dict and depth < DEEP:
        return {key_name(key): _plain(one, depth + 1) for key, one in islice(value.items(), ITEMS)}
    if kind in (list, tuple) and depth < DEEP:
        return [_plain(one, depth + 1) for one in islice(value, ITEMS)]
    return kind.__name__


def nonblocking(logger: Any, *, limit: float = LIMIT, last: float = LAST, size: int = SIZE) -> Any:
    """A stand-in for `logger` whose methods return at once, with None, and are carried out by a thread, in order.

    `limit`: seconds that a call may take when `size` calls are waiting already. `last`: seconds that `flush`, `close`,
    `finish` and the end of the process may take. What is no method is the logger's own. Dicts, lists, tensors and
    arrays are copied when they are handed over; everything else must not be changed afterwards. A logger's exception
    does not reach the training: the first is told on stderr at once, and all are counted. `undelivered` tells how
    many calls have not reached the logger, `logger` is the logger itself, for answers that are needed.
    """
    from .side_work.nonblocking import NonBlocking  # only who wants it pays for it

    return NonBlocking(logger, limit, last, size)


_phase_count = _PhaseCount()

_note_count = _NoteCount()
