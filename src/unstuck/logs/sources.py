"""Lines about the way to the first batch: files opened, documents read, tokens made, how full the buffer is."""

from __future__ import annotations

from collections.abc import Callable

from ..inside import format as f
from ..inside.format import Kind
from ..recordings.decoder import Entry, Record
from ..recordings.tail import Tail
from ..wording.text import duration, many, percent, size
from .line import DEBUG, INFO, WARNING, Line

FIRST, FILE = "🔍 [FIRST_BATCH]", "🔍 [DATA_FILE]"
EVERY = 10  # document batches between two lines of progress
SECONDS = 1.0  # at least, between two of them: who tokenises one document at a time has many
FILES = 32  # that have a line of their own
ROUND = 1_000  # calls without anything new


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
        due = self._calls // EVERY > self._said // EVERY and now - self._told >= SECONDS
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
        return f"; of {found.c:,} texts looked at, {found.c - found.d:,} are usable"

    def _round(self, one: Record, name: str) -> list[Line]:
        text = f"{name} was called {one.a:,} times without anything new: it goes round in circles"
        return [self._line(self._now, f"⚠️ {FILE.removeprefix('🔍 ')} {text}", WARNING)]

    def _file(self, one: Record) -> list[Line]:
        if not one.start or self._files >= FILES:
            return []
        self._files += 1
        path, *place = self._tail.string(one.key).split("\n")
        at, lines = self._tail.seconds(one.start), []
        if place and self._files == 1:
            lines.append(self._line(at, f"{FILE} {many(int(place[1]), 'file')} to go through"))
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
