"""Turns what one main process records into lines, as it comes: its loaders, passes, steps, and what each part says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol

from ..evidence.epochs import TRAINING, VALIDATION
from ..inside import format as f
from ..inside.format import Kind
from ..recordings.decoder import Entry, Record
from ..recordings.passes import Pass, Passes
from ..recordings.tail import Tail
from ..wording.text import duration, many
from . import failures
from .data import BucketLines, ShardLines, Sources
from .files import DEBUG, ERROR, INFO, WARNING, Line, Settings
from .loaders import Distributed, KnownLoader, Preparing, assigned, described, lengths
from .passes import PassLines
from .start import Beginning
from .training import Logging, Losses, Trainers, is_of_validation, save_failed, saved

PARTS = (Preparing, Trainers, ShardLines, BucketLines)
PART_KINDS = tuple(kind for part in PARTS for kind in part.KINDS)
SAMPLE_KINDS = (Kind.STAGE, Kind.SAMPLE)
SAMPLES = "samples"  # the name in these lines
KEPT_STAGES = 4096  # stages whose sample is still to come
ENOUGH = 0.00005  # seconds outside of all stages that are worth a line: times are printed to a tenth of a millisecond
RING = (
    Kind.ITERATOR, Kind.WAIT, Kind.PASS_END, Kind.FETCH, Kind.SHUTDOWN, Kind.METRIC, Kind.SAVE, Kind.SPAN, Kind.PHASE,
    Kind.CALL, Kind.SOURCE,
)  # fmt: skip
NOTES = (
    Kind.LOADER, Kind.LENGTH, Kind.ITERATOR, Kind.PASS_END, Kind.ITERATOR_FAILED, Kind.WORKER, Kind.OPTIMIZER,
    Kind.EXIT, Kind.ADAPTER_FAILED, Kind.SAVE, Kind.SAVE_FAILED, Kind.PHASE, Kind.GROUP, Kind.EARLY, Kind.WRAPPED,
    Kind.LOGGER, Kind.CALL, Kind.SOURCE, Kind.DATA_FILE, *PART_KINDS,
)  # fmt: skip
LOOP, SETUP, PROCESS, ACCESS = "[TRAIN_LOOP]", "🔍 [SETUP_EPOCH]", "🔍 [TRAIN_PROCESS]", "🔍 [DATASET]"
AS_WORD, AS_DOUBLE = struct.Struct("q").pack, struct.Struct("d").unpack
SETTLED = 0.3  # seconds after which an event has come, if the loop goes on: they are written a tenth of a second late
MISSED_EVERY = 10.0  # seconds between two lines about missing events
BOTH = (Kind.ITERATOR, Kind.PASS_END)  # kinds that are among frequent and rare events
KEPT_WORKERS = 4096  # workers: they may be started again with every epoch


class MainProcess:
    """One rank. `name` is how its lines call it: [Rank 0]."""

    def __init__(self, tail: Tail, settings: Settings) -> None:
        self.tail = tail
        self.pid = tail.header[f.H_PID]
        self.name = ""
        self.known = KnownLoaders(tail)
        self._passes = Passes(tail.header[f.H_MONOTONIC])
        self._marks = PassLines(tail, settings, self.known.loaders)
        self._distributed = Distributed(tail)
        self._logging = Logging(tail)
        self._sources = Sources(tail)
        self.beginning = Beginning(tail)
        own: list[Part] = [self._distributed, self._logging, self._sources, self.beginning]
        self._parts = own + parts_of(tail)
        self._losses = Losses(settings)
        self._samples = SampleTimes(tail) if settings.samples else None
        self._failed_exits: set[int] = set()
        self._setup: dict[int, int] = {}  # the newest pass of each loader that was told of
        self._early: list[Record] = []
        self._missed, self._missed_told = 0, 0.0
        self._met = False

    def called(self, name: str) -> None:
        self.name = self._marks.name = self.known.rank = name
        for part in self._parts:
            part.name = name

    def is_busy(self) -> bool:
        """It does something that is worth a line."""
        return bool(self.tail.header[f.H_STEPS]) or bool(self.tail.board())

    def lines(self, now: float, *, final: bool) -> list[Line]:
        """What happened since the last time, in the order of time."""
        tail = self.tail
        new = self._new()
        records = self._due([one for one in new if one.kind not in SAMPLE_KINDS], now, final=final)
        tail.look()
        board = tail.board()  # after the rings: what it says is never older
        lines = self._begin() if not self._met else []
        read = self._readers()
        for record in records:
            lines += read[record.kind](record)
        if self._samples is not None:
            lines += self._samples.lines(self.name, [one for one in new if one.kind in SAMPLE_KINDS])
        self._passes.look(board)
        lines += self.beginning.lines(now, final=final)
        lines += self._sources.look(board, now)
        lines += self._starting(board) + self._distributed.waits(board, now, final=final)
        if final:
            lines += self._close(now)
        lines += self._marks.of(self._passes, now, final=final)
        lines += self.known.shares()
        lines += [self._failure(said) for said in tail.new_last_words()]
        return sorted(lines + self._gaps(now, final=final), key=lambda one: one.at)

    def _new(self) -> list[Record]:
        """Beginnings and ends of passes are among both: the notes still have them where the ring was overwritten."""
        notes, ring = self.tail.notes.new(), self.tail.ring.new()
        if self.tail.ring.missed:
            told = {_which(one) for one in ring}
            return [one for one in notes if one.kind not in BOTH or _which(one) not in told] + ring
        return [one for one in notes if one.kind not in BOTH] + ring

    def _due(self, new: list[Record], now: float, *, final: bool) -> list[Record]:
        """In the order of time. Steps are written down together, so that what came after them may be there first."""
        known = sorted(self._early + new, key=lambda one: one.end)
        due = len(known)
        while not final and due and now - self._at(known[due - 1].end) < SETTLED:
            due -= 1
        self._early = known[due:]
        return known[:due]

    def _at(self, moment: int) -> float:
        return self.tail.seconds(moment)

    def _begin(self) -> list[Line]:
        self._met = True
        header = self.tail.header
        world = f", one of {header[f.H_WORLD]} ranks" if header[f.H_WORLD] else ""
        text = f"{self.name} {PROCESS} pid {self.pid} on {self.tail.path.rpartition('/')[2].rsplit('.', 4)[0]}{world}"
        return [Line(self._at(header[f.H_MONOTONIC]), INFO, "process", text)]

    def _readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {
            Kind.LOADER: self.known.met, Kind.LENGTH: self.known.length, Kind.ITERATOR: self._iterator,
            Kind.ITERATOR_FAILED: self._iterator_failed, Kind.WORKER: self.known.worker, Kind.WAIT: self._batch,
            Kind.PASS_END: self._pass_end, Kind.SHUTDOWN: self._shutdown, Kind.FETCH: self._fetch,
            Kind.OPTIMIZER: self._optimizer, Kind.EXIT: self._exit, Kind.ADAPTER_FAILED: self._adapter,
            Kind.METRIC: self._metric, Kind.SAVE: self._save, Kind.PHASE: self._phase,
            Kind.SAVE_FAILED: self._save_failed,
        } | {kind: read for part in self._parts for kind, read in part.readers().items()}  # fmt: skip

    def _starting(self, board: list[Entry]) -> list[Line]:
        """An iterator that is being made: its event comes only when it is there, and that may take long."""
        making = [one for one in board if one.kind == Kind.ITERATOR]
        return [line for one in making for line in self._set_up(one.key, one.b, self._at(one.since))]

    def _set_up(self, loader: int, number: int, at: float) -> list[Line]:
        if self._setup.get(loader, 0) >= number:
            return []
        self._setup[loader] = number
        text = f"{self.name} {SETUP} pass {number} over loader {loader} is being set up"
        begins = [self.beginning.loading(loader, at)] if number == 1 else []
        return [*begins, Line(at, DEBUG, "loop", text)]

    def _iterator(self, one: Record) -> list[Line]:
        if self._passes.iterator(one) is None:
            return []
        self.known.loader(one.key)
        lines = self._set_up(one.key, one.a, self._at(one.start))
        workers = many(one.b, "worker") if one.b else "no workers: this process loads the data itself"
        text = f"{self.name} 🔍 {LOOP} - main data iterator created: pass {one.a} over loader {one.key}, {workers}"
        text += f", in {duration(one.duration / 1e9)}" if one.duration else ""
        return [*lines, Line(self._at(one.end), INFO, "loop", text, main=False)]

    def _iterator_failed(self, one: Record) -> list[Line]:
        text = f"{self.name} ❌ {LOOP} creating the main data iterator failed: {self.tail.string(one.b)}"
        return [Line(self._at(one.end), ERROR, "loop", text, key=True)]

    def _batch(self, one: Record) -> list[Line]:
        self.known.loader(one.key)
        now = self._passes.batch(one)
        self._marks.batch(now, one.a)
        if one.a:
            return []
        at = self._at(one.end)
        text = f"{self.name} {PROCESS} first batch of pass {one.b} over loader {one.key}"
        ready = self._sources.ready(at, "the first batch is ready")
        return [*ready, Line(at, DEBUG, "loop", f"{text} after {duration(one.duration / 1e9)}")]

    def _pass_end(self, one: Record) -> list[Line]:
        now, at = self._passes.pass_end(one), self._at(one.end)
        if now is None:
            return []
        self.known.loader(one.key)
        logged = self._logging.ends(now.number, one.key, at, (one.end - now.begun) / 1e9)
        total = self._counted(now)
        text = f"{self.name} COMPLETED iteration, total samples: {total}"
        return [*logged, *([Line(at, INFO, "data", text, main=False)] if total else [])]

    def _counted(self, now: Pass) -> str:
        """Empty where workers say so themselves. Of ready-made batches, the files they are made of know."""
        made = next((one.taken() for one in self._parts if isinstance(one, ShardLines)), 0)
        if not now.samples:
            return f"{made or ''}"
        return f"{now.samples}" if now.fetches == now.batches else f"unknown, {now.samples} seen (events are missing)"

    def _shutdown(self, one: Record) -> list[Line]:
        self._passes.shutdown(one)
        return []

    def _fetch(self, one: Record) -> list[Line]:
        """In this process itself: it has no workers."""
        now = self._passes.loader(one.key).now
        if now is None:
            return []
        first = not now.samples and now.number == 1
        now.samples += one.a
        now.fetches += 1
        index = f"index {one.c}" if one.c >= 0 else "of a stream"
        text = f"{self.name} {ACCESS} first sample: {index}, its batch took {duration(one.duration / 1e9)}"
        return [Line(self._at(one.end), DEBUG, "data", text)] if first else []

    def _optimizer(self, one: Record) -> list[Line]:
        device = f", on {self.tail.string(one.b)}" if one.b else ""
        text = f"{self.name} {PROCESS} first optimizer step: {self.tail.string(one.a)}{device}"
        ready = self._sources.ready(self._at(one.start), "the first batch was ready and the first step taken")
        return [*ready, Line(self._at(one.start), INFO, "loop", text)]

    def _exit(self, one: Record) -> list[Line]:
        """Of a worker, however often its parent learns of it. One that is asked to go by SIGTERM has not failed."""
        known = self.known.workers.get(one.a)
        if known is None or one.b in (0, -15) or one.a in self._failed_exits:
            return []
        self._failed_exits.add(one.a)
        return [failures.worker_ended(self.worker(known[1]), self._at(one.start), one.a, one.b)]

    def worker(self, number: int | None) -> str:
        return self.name if number is None else f"{self.name[:-1]} Worker {number}]"

    def _adapter(self, one: Record) -> list[Line]:
        text = f"{self.name} ⚠️ part of the recording was turned off: {self.tail.string(one.a)}"
        return [Line(self._at(one.start), WARNING, "recording", text, key=True)]

    def _metric(self, one: Record) -> list[Line]:
        name, value = self.tail.string(one.key), AS_DOUBLE(AS_WORD(one.b))[0]
        inner = self._passes.open[-1] if self._passes.open else None
        validates = (
            inner is not None and inner.kind != TRAINING and (is_of_validation(name) or inner.kind == VALIDATION)
        )
        if inner is not None and validates and "loss" in name.lower():
            self._marks.loss(inner, value)
            return self._losses.nonsense(self.name, self._at(one.start), name, value, inner.batches)
        return self._losses.told(self.name, self._at(one.start), name, value, one.a - 1 if one.a > 0 else None)

    def _save(self, one: Record) -> list[Line]:
        return saved(self.tail, self.name, one)

    def _save_failed(self, one: Record) -> list[Line]:
        return save_failed(self.tail, self.name, one)

    def _phase(self, one: Record) -> list[Line]:
        self._passes.phase(one, self.tail.string(one.key))
        return []

    def _failure(self, said: dict[str, Any]) -> Line:
        iterable = any(self.known.iterable.values()) and said.get("index") is None
        return failures.failed(self.name, self._at(int(said.get("at", 0))), said, iterable=iterable)

    def _gaps(self, now: float, *, final: bool) -> list[Line]:
        missed = self.tail.ring.missed + self.tail.notes.missed
        if missed == self._missed or (now - self._missed_told < MISSED_EVERY and not final):
            return []
        count, self._missed, self._missed_told = missed - self._missed, missed, now
        text = f"{self.name} ⚠️ {count:,} events were overwritten before they could be read: lines are missing here"
        return [Line(now, WARNING, "recording", text)]

    def _close(self, now: float) -> list[Line]:
        """The process has ended."""
        header = self.tail.header
        at = self._at(header[f.H_ENDED]) if header[f.H_ENDED] else now
        self._passes.close(header[f.H_ENDED] or self.tail.moment(now))
        how = f.ENDINGS[header[f.H_ENDED_HOW]] if header[f.H_ENDED_HOW] < len(f.ENDINGS) else ""
        text = f"{self.name} {PROCESS} pid {self.pid} has ended ({how or 'how was not recorded'})"
        return [Line(at, INFO, "process", text, main=False)]


def _which(one: Record) -> tuple[int, int, int]:
    """Of which pass this is the beginning or the end."""
    return one.kind, one.key, one.a if one.kind == Kind.ITERATOR else one.b


class Part(Protocol):
    """What makes lines of some kinds of events."""

    name: str  # how the process is called in its lines

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]: ...


def parts_of(tail: Tail) -> list[Part]:
    return [part(tail) for part in PARTS]


class KnownLoaders:
    """Filled as the notes are read."""

    def __init__(self, tail: Tail) -> None:
        self.rank = ""  # how the process is called in its lines
        self.loaders: dict[int, KnownLoader] = {}
        self.workers: dict[int, tuple[int, int]] = {}  # loader and number of each, by pid
        self.iterable: dict[int, bool] = {}  # by loader
        self._tail = tail
        self._descriptions: dict[int, str] = {}
        self._datasets: dict[int, int] = {}  # lengths
        self._assigned: list[tuple[float, int, int]] = []
        self._told: set[tuple[int, int]] = set()  # loader and number of workers whose share was told

    def loader(self, number: int) -> KnownLoader:
        return self.loaders.get(number) or self.loaders.setdefault(number, KnownLoader(number))

    def met(self, one: Record) -> list[Line]:
        """A loader in use is described again with every pass; one line may make so many that a number is used twice."""
        text = self._tail.string(one.a)
        if one.key in self._descriptions and text in ("", self._descriptions[one.key]):
            return []
        self._descriptions[one.key] = text
        self.loader(one.key)
        self.iterable[one.key] = '"iterable": true' in text
        return described(self.rank, self._tail.seconds(one.start), one.key, text)

    def length(self, one: Record) -> list[Line]:
        loader, dataset = self.loader(one.key), one.a - 1 if one.a > 0 else None
        if (loader.length, self._datasets.get(one.key)) == (one.b - 1, dataset):
            return []
        loader.length = one.b - 1
        if dataset is not None:
            self._datasets[one.key] = dataset
        return lengths(self.rank, self._tail.seconds(one.start), loader, dataset)

    def worker(self, one: Record) -> list[Line]:
        self.workers[one.a] = (one.key, one.b)
        if len(self.workers) > KEPT_WORKERS:
            del self.workers[next(iter(self.workers))]
        if (one.key, one.b) not in self._told and len(self._told) < KEPT_WORKERS:
            self._told.add((one.key, one.b))
            self._assigned.append((self._tail.seconds(one.start), one.key, one.b))
        return []

    def shares(self) -> list[Line]:
        """What each worker reads. Of a loader's first workers only: those of later epochs are assigned the same."""
        workers_met, self._assigned = self._assigned, []
        world = self._tail.header[f.H_WORLD]
        rank = self.rank.strip("[]") + (f"/{world}" if world else "")
        lines = []
        for at, number, worker in workers_met:
            text, dataset = self._descriptions.get(number, ""), self._datasets.get(number)
            workers = 1 + max((one[1] for one in self.workers.values() if one[0] == number), default=worker)
            whose = f"[{rank} Worker {worker}/{workers}]"
            lines += assigned(whose, at, text, self.loader(number), dataset, worker, workers)
        return lines


class SampleTimes:
    """Of one process."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._stages: list[Record] = []

    def lines(self, whose: str, records: list[Record]) -> list[Line]:
        self._stages = [*self._stages, *(one for one in records if one.kind == Kind.STAGE and one.c)][-KEPT_STAGES:]
        return [line for one in records if one.kind == Kind.SAMPLE for line in self._of(whose, one)]

    def _of(self, whose: str, sample: Record) -> list[Line]:
        """Stages are written when they end, their sample some time later: when its batch is done."""
        mine = [one for one in self._stages if sample.start <= one.start <= sample.end]
        self._stages = [one for one in self._stages if one.start > sample.end]
        items = sorted((one for one in mine if one.a), key=lambda one: -one.c)  # what the user named comes first
        named = self._tail.string(items[0].a) if items else ""
        index = f"index {sample.a}" if sample.a >= 0 else f"number {sample.b} of its stream"
        name = named or index
        lines = [self._stage(whose, one, name) for one in mine]
        rest = sample.duration - sum(one.duration for one in _outermost(mine))
        if mine and rest / 1e9 >= ENOUGH:
            lines.append(self._line(whose, sample, f"[{name}] process: {rest / 1e9:.4f}s"))
        also = f" ({index})" if named else ""
        return [*lines, self._line(whose, sample, f"[{name}] TOTAL: {sample.duration / 1e9:.4f}s{also}")]

    def _stage(self, whose: str, one: Record, name: str) -> Line:
        shape = f" (shape={self._tail.string(one.b)})" if one.b else ""
        item = self._tail.string(one.a) if one.a else name
        text = f"[{item}] {self._tail.string(one.key)}: {one.duration / 1e9:.4f}s{shape}"
        return self._line(whose, one, text)

    def _line(self, whose: str, one: Record, text: str) -> Line:
        return Line(self._tail.seconds(one.end), DEBUG, SAMPLES, f"{whose} {text}")


def _outermost(stages: list[Record]) -> list[Record]:
    """Stages that are not inside another stage."""
    return [
        one
        for one in stages
        if not any(other is not one and other.start <= one.start and one.end <= other.end for other in stages)
    ]
