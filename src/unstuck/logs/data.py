"""Lines about data on its way: files and tokens up to the first batch, lists of shards and their errors, buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..inside import format as f
from ..inside.format import H_WORKERS, H_WORLD, Kind
from ..recordings.decoder import Entry, Record
from ..recordings.tail import Tail
from ..wording.text import duration, many, percent, size
from .files import DEBUG, ERROR, INFO, WARNING, Line

FIRST, FILE = "🔍 [FIRST_BATCH]", "🔍 [DATA_FILE]"
BATCHES_EACH = 10  # document batches between two lines of progress
SECONDS_EACH = 1.0  # at least, between two of them: where documents are tokenised one by one, there are many
FILES_EACH = 32  # that have a line of their own
ROUND = 1_000  # calls without anything new
READERS = "readers"
HALF = (1 << 32) - 1
ALONE = "single_node_only"  # webdataset's default instead of a splitter: it refuses several ranks
WHAT = {"open": "Error opening shard", "read": "Error reading shard", "group": "Error reading shard"}
BUCKETS, SETUP, DISTRIBUTED = "🔍 [BUCKETS]", "🔍 [SETUP_EPOCH]", "🔍 [DISTRIBUTED]"
EPOCH = "setup_epoch"
TAG = "BUCKETS"  # a note with this tag is shown as buckets


class Sources:
    """Those of one rank."""

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._met: set[str] = set()  # kinds of calls whose beginning was told
        self._done: set[str] = set()  # and whose first end was
        self._files = self._calls = self._said = 0
        self._documents = self._tokens = 0
        self._began = self._told = self._now = self._read = 0.0
        self._buffer: Entry | None = None
        self._ready = False

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.SOURCE: self._source, Kind.DATA_FILE: self._file}

    def look(self, board: list[Entry], now: float) -> list[Line]:
        """Every ten document batches: how full the buffer is."""
        self._now = now
        filled = [one for one in board if one.kind == Kind.PROGRESS and one.b > 0]
        if self._ready or not self._began:
            return []
        before, self._buffer = self._buffer, max(filled, key=lambda one: one.since, default=None)
        buffer = self._buffer
        lines = []
        if before is None and buffer is not None:
            lines.append(self._line(now, f"{FIRST} - {self._full(buffer)} at first", DEBUG))
        due = self._calls // BATCHES_EACH > self._said // BATCHES_EACH and now - self._told >= SECONDS_EACH
        if due:
            self._said, self._told = self._calls, now
            lines.append(self._line(now, f"{FIRST} progress: {self._so_far()}"))
        return lines

    def ready(self, at: float, what: str) -> list[Line]:
        """The first batch has come, or the first step was taken."""
        if self._ready or not self._began:
            return []
        self._ready = True
        text = f"{FIRST} ✓ {what} {duration(max(at - self._began, 0))} after loading began: {self._so_far(full=True)}"
        return [*self._put_together(at), self._line(at, text)]

    def _put_together(self, at: float) -> list[Line]:
        """From the last document on: nothing more had to be read for it."""
        if not self._read:
            return []
        holds = f" from {self._full(self._buffer, full=True)}" if self._buffer is not None else ""
        return [self._line(min(self._read, at), f"{FIRST} the first batch is put together{holds}", DEBUG)]

    def _source(self, one: Record) -> list[Line]:
        kind, name, threads, *line = self._tail.string(one.key).split("\n") + [""] * 3
        if one.c:
            return self._called(one, kind, name)
        if one.a:
            return self._round(one, name) if one.a == ROUND else []
        return self._begins(self._tail.seconds(one.start), kind, name, threads, line)

    def _begins(self, at: float, kind: str, name: str, threads: str, line: list[str]) -> list[Line]:
        place = f" at {line[0].rpartition('/')[2]}:{line[1]}" if len(line) > 1 and line[0] else ""
        lines = []
        if not self._began:
            self._began = at
            world = self._tail.header[f.H_WORLD]
            rank = self._tail.header[f.H_RANK]
            whose = f" (rank={max(rank - 1, 0)}, world_size={world or 1})"
            lines.append(self._line(at, f"{FIRST} loading begins: {name}{place}{whose}"))
        if kind not in self._met:
            self._met.add(kind)
            with_threads = f", {many(int(threads), 'thread')}" if threads else ""
            what = {"tokens": "tokenising", "rows": "reading", "map": "preparing"}.get(kind, kind)
            lines.append(self._line(at, f"{FIRST} {what} begins: {name}{place}{with_threads}", DEBUG))
        return lines

    def _called(self, one: Record, kind: str, name: str) -> list[Line]:
        self._read = self._tail.seconds(one.end)
        if kind == "tokens":
            self._calls += one.c
            self._documents += one.a
            self._tokens += one.b
        if kind in self._done or not one.a:
            return []
        self._done.add(kind)
        at, took = self._tail.seconds(one.end), duration(one.duration / 1e9)
        if kind == "tokens":
            each = f" ({one.b / one.a:,.0f} a document)"
            return [
                self._line(
                    at, f"{FIRST} ✓ tokenised: {many(one.a, 'document')}, {many(one.b, 'token')}{each} in {took}"
                )
            ]
        return [
            self._line(at, f"{FILE} ✓ first rows: {many(one.a, 'row')} from {name} in {took}{self._texts(one.key)}")
        ]

    def _texts(self, key: int) -> str:
        found = next((each for each in self._tail.board() if each.kind == Kind.SOURCE and each.key == key), None)
        if found is None or not found.c:
            return ""
        return f"; by now {found.c - found.d:,} of {found.c:,} texts looked at are usable"

    def _round(self, one: Record, name: str) -> list[Line]:
        text = f"{name} was called {one.a:,} times without new data: it loops endlessly"
        return [self._line(self._now, f"⚠️ {FILE.removeprefix('🔍 ')} {text}", WARNING)]

    def _file(self, one: Record) -> list[Line]:
        if not one.start or self._files >= FILES_EACH:
            return []
        self._files += 1
        path, *place = self._tail.string(one.key).split("\n")
        at, lines = self._tail.seconds(one.start), []
        if place and self._files == 1:
            lines.append(self._line(at, f"{FILE} {many(int(place[1]), 'file')} to read"))
        number = f"file {place[0]} of {place[1]}" if place else f"file {self._files}"
        facts = [f"{one.a - 1:,} row groups"] if one.a else []
        facts += [many(one.b - 1, "row")] if one.b else []
        facts += [size(one.c - 1)] if one.c else []
        return [*lines, self._line(at, f"{FILE} {number}: {path} ({', '.join(facts)})", DEBUG)]

    def _so_far(self, *, full: bool = False) -> str:
        parts = [many(self._calls, "document batch")] if self._calls else []
        parts += [f"{many(self._documents, 'document')}, {many(self._tokens, 'token')}"] if self._documents else []
        if self._buffer is not None:
            parts.append(self._full(self._buffer, full=full))
        return ", ".join(parts) or "nothing counted"

    def _full(self, one: Entry, *, full: bool = False) -> str:
        unit = self._tail.string(one.c)
        have = max(one.a, one.b) if full else one.a
        amount = f"{have:,}/{one.b:,}" if not full else f"{one.b:,}"
        return f"{self._tail.string(one.key)}: {amount}{f' {unit}' if unit else ''} ({percent(have / one.b)})"

    def _line(self, at: float, text: str, level: str = INFO) -> Line:
        return Line(at, level, "data", f"{self.name} {text}", main=False)


def in_worker(whose: str, board: list[Entry], now: float, tail: Tail) -> list[Line]:
    """What a worker got so far, by its board."""
    found = [one for one in board if one.kind == Kind.SOURCE and one.a >> 1]
    parts = [f"{tail.string(one.key).split(chr(10))[1]}: {one.a >> 1:,} in, {one.b:,} made" for one in found]
    return [Line(now, DEBUG, "data", f"{whose} {FIRST} {'; '.join(parts)}")] if parts else []


class ShardLines:
    """Those of one process: a rank, or one of its workers."""

    KINDS = (Kind.SHARDS, Kind.SHARD_ERROR)

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._samples = 0  # of passes that have ended, and were not asked for yet

    def taken(self) -> int:
        """Samples of all epochs over lists of shards that ended since the last call."""
        samples, self._samples = self._samples, 0
        return samples

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.SHARDS: self._shards, Kind.SHARD_ERROR: self._error}

    def lines(self, name: str) -> list[Line]:
        """What is new, of a process whose other notes are not read."""
        self.name = name
        read = self.readers()
        return [line for one in self._tail.notes.new() if one.kind in read for line in read[one.kind](one)]

    def _shards(self, one: Record) -> list[Line]:
        """Noted when the first pass begins, and when one has ended."""
        known, at = self._tail.facts(one.key), self._tail.seconds(one.end)
        if known.get("library") == READERS:  # recorded for its errors only
            return []
        whole = known.get("name") or known.get("library")
        if one.duration:
            self._samples += one.c
            own = one.b & HALF
            files = many(own - 1, "file") if own else "all its files"
            lasted = duration(one.duration / 1e9)
            text = f"{self.name} went through {files} of {whole} in {lasted}, pass {one.a}, samples: {one.c}"
            return [Line(at, DEBUG, "data", text)]
        mine, total = known.get("mine"), known.get("total")
        shown = f"{'?' if mine is None else mine}/{'?' if total is None else total}"
        drawn = ", drawn at random with replacement" if known.get("resampled") else ""
        splitter = known.get("splitter")
        shared = f", split by {splitter}" if splitter and splitter != ALONE else ""
        text = f"{self._whole_name()} Processing {shown} files from {whole} ({known.get('library')}{shared}{drawn})"
        return [Line(at, DEBUG if mine != 0 else INFO, "data", text)]

    def _error(self, one: Record) -> list[Line]:
        known = self._tail.facts(one.a)
        if not known:  # it says what happened to the file later
            return []
        stage = str(known.get("stage"))
        sample = f" sample {known['key']} of" if known.get("key") else " a sample of"
        what = WHAT.get(stage) or f"Error in {stage} of{sample} shard"
        after = f" after {many(one.b, 'sample')}" if one.b and stage == "read" else ""
        said = f"{known.get('type')}: {known.get('message')}".strip()
        text = f"❌ {self.name} {what} {known.get('path')}{after}: {said}; {_then(known, one.c / 1e9)}"
        return [Line(self._tail.seconds(one.end), ERROR, "data", text)]

    def _whole_name(self) -> str:
        """[Rank 0/8 Worker 0/2]: of how many, as far as that is known."""
        world, workers = self._tail.header[H_WORLD], self._tail.header[H_WORKERS]
        rank, worker, number = self.name[1:-1].partition(" Worker ")
        rank += f"/{world}" if world else ""
        return f"[{rank}{worker}{number}{f'/{workers}' if worker and workers else ''}]"


def samples_of_shards(board: list[Entry]) -> int:
    """That came out of the files of all lists."""
    return sum(one.c for one in board if one.kind == Kind.SHARDS)


def _then(known: dict[str, Any], slept: float) -> str:
    """What the handler decided, and what that means."""
    if not known.get("handler"):
        return "raised to the caller"
    took = f" after {duration(slept)}" if slept >= 0.1 else ""
    if known.get("list_lost"):
        return f"{known['handler']} stopped reading{took}, the rest of the list is left out"
    lost = ", the rest of the shard is left out" if known.get("rest_lost") else ""
    lost = ", the whole shard is left out" if known.get("stage") == "open" else lost
    went = "went on" if known.get("goes_on") else "stopped"
    return f"{known['handler']} {went}{took}{lost}"


class BucketLines:
    """One rank's lines."""

    KINDS = (Kind.BUCKETS, Kind.NOTE, Kind.SKIPPING)

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._listed: dict[int, dict[str, int]] = {}  # buckets of each dataset that were told one by one
        self._batches: dict[int, int] = {}  # and how many batches they make

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.BUCKETS: self._buckets, Kind.NOTE: self._note, Kind.SKIPPING: self._skipping}

    def _buckets(self, one: Record) -> list[Line]:
        known = self._tail.facts(one.a)
        at, name = self._tail.seconds(one.end), str(known.get("dataset") or "").rpartition(".")[2] or "the dataset"
        if known.get("step"):
            return self._stepped(at, name, known, one.duration / 1e9)
        if one.b:
            return [self._line(at, f"{BUCKETS} {name} is read by loader {one.b}"), *self._remainder(at, known)]
        return [
            self._line(at, f"{BUCKETS} {name}, from unstuck.note"),
            *self._each(at, known),
            *self._remainder(at, known),
        ]

    def _stepped(self, at: float, name: str, known: dict[str, Any], seconds: float) -> list[Line]:
        """setup_buckets lists the buckets, build_batch_indices tells the batches, setup_epoch only that it was."""
        step = known["step"]
        where = known.get("where") or {}
        place = f" ({str(where.get('file')).rpartition('/')[2]}:{where.get('line')})" if where else ""
        marker = SETUP if step == EPOCH else BUCKETS
        head = self._line(at, f"{marker} {name}.{step}{place} ✓ in {duration(seconds)}: {_in_all(known)}")
        return [head] if step == EPOCH else [head, *self._each(at, known)]

    def _each(self, at: float, known: dict[str, Any]) -> list[Line]:
        files, which = known.get("files") or {}, known.get("which") or 0
        lines = []
        if files and self._listed.get(which) != files:
            self._listed[which] = files
            lines += [self._line(at, f"{BUCKETS} - {bucket}: {many(count, 'file')}") for bucket, count in files.items()]
            hidden = (known.get("count") or 0) - len(files)
            lines += [self._line(at, f"{BUCKETS} - and {many(hidden, 'smaller bucket')}")] if hidden > 0 else []
        partial = known.get("partial")
        rest = f", {partial:,} of them not full" if partial else ""
        if known.get("batches") is not None and self._batches.get(which) != known["batches"]:
            self._batches[which] = known["batches"]
            lines.append(self._line(at, f"{BUCKETS} - batch_indices in all: {known['batches']}{rest}"))
        return lines

    def _remainder(self, at: float, known: dict[str, Any]) -> list[Line]:
        """X over Y: the remainder, before a sampler or accelerate evens it out."""
        total, ranks = known.get("batches"), self._tail.header[f.H_WORLD]
        if not isinstance(total, int) or ranks < 2:
            return []
        each, rest = divmod(total, ranks)
        text = f"{many(total, 'batch')}, the same list on all of {ranks} processes: {each} each"
        if not rest:
            return [self._line(at, f"{DISTRIBUTED} - {text}, nothing left over", DEBUG)]
        text += (
            f", remainder {rest}: ranks 0 to {rest - 1} get {each + 1}"
            if rest > 1
            else f", remainder 1: rank 0 gets {each + 1}"
        )
        evened = f"with even_batches or DistributedSampler, {many(ranks - rest, 'batch')} would be repeated"
        return [self._line(at, f"{DISTRIBUTED} - {text}; {evened}")]

    def _note(self, one: Record) -> list[Line]:
        tag, known = self._tail.string(one.key), self._tail.facts(one.a)
        if tag.upper() == TAG:
            return []
        facts = ", ".join(f"{name}={value}" for name, value in known.items())
        return [self._line(self._tail.seconds(one.end), f"🔍 [{tag}] {facts}")]

    def _skipping(self, one: Record) -> list[Line]:
        """A resumed training: no step is made while it lasts, and that is right."""
        count = many(one.a, "batch") if one.a else "batches"
        text = f"{SETUP} passing over {count} of loader {one.key} that were trained before ({self._tail.string(one.b)})"
        return [self._line(self._tail.seconds(one.end), text)]

    def _line(self, at: float, text: str, level: str = INFO) -> Line:
        return Line(at, level, "buckets", f"{self.name} {text}")


def _in_all(known: dict[str, Any]) -> str:
    size = f", batch_size {known['batch_size']}" if known.get("batch_size") else ""
    buckets, files = many(known.get("count") or 0, "bucket"), many(known.get("total_files") or 0, "file")
    return f"{buckets}, {files}, {many(known.get('batches') or 0, 'batch')}{size}"
