"""What the watchers of all nodes wrote down, read within bounds: a run folder may be anybody's and hold anything.

So much is read of all journals together, and so much of it is kept. Each node gets its share of what is left, so that
one that is full of lines takes nothing from the others. What is left out is told.
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from ..evidence import Exit, Glance, Sample, Told
from ..evidence.journal import Begin, Glanced, Gone, Heard, Line, Look
from ..safe_files import open_plain
from ..wording.left_out import encodable, left_out

LARGEST = 8 << 20  # bytes of one journal: it is set aside long before
READ = 128 << 20  # bytes of all of them: 16 nodes with the longest that a watcher writes
WORK = 1_200_000  # lines and opening braces in all of them, which is what reading takes time for: one second
HEAD = 64 << 10  # bytes of the beginning of one that is not read as a whole
LONGEST = 1 << 20  # bytes of one line: a look at 5,000 processes
NODES, TOLD = 1024, 20  # journals that are read, and of those that cannot be, how many are named
OLD = ".old.jsonl"  # what a journal that grew too long was renamed to
KEPT = 60  # samples per node that go into Evidence: so many newest, and as many spread over all the time before
# About the bytes of memory that may be taken by what is kept of all nodes together; of 125 nodes with 72 processes
# each, all exits of 40 epochs and a third of the samples fit.
SAMPLES, EXITS, GLANCES, SIGNALS = 96 << 20, 48 << 20, 12 << 20, 4 << 20
EACH, EACH_EXIT = 300, 100  # about the bytes of memory of what a line holds, beside its own texts
_decoder = msgspec.json.Decoder(Line)
T = TypeVar("T")


class Journal(msgspec.Struct):
    """What one node's watcher wrote down, the older part first."""

    begin: Begin | None = None
    ended: bool = False
    samples: list[Sample] = []
    exits: list[Exit] = []
    glances: list[Glance] = []
    signals: list[Told] = []


class _Mark(NamedTuple):
    """What of a look is needed to choose among them; the rest stays a line until it is chosen."""

    line: bytes
    weight: int
    close: bool
    oom_kills: dict[str, int]


class _Newest(Generic[T]):
    """The newest of its kind, as many as there is room for."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._weights: deque[int] = deque()
        self.found: deque[T] = deque()
        self.dropped = 0

    def add(self, one: T, weight: int) -> None:
        self.found.append(one)
        self._weights.append(weight)
        self._room -= weight
        while self._room < 0:
            self.found.popleft()
            self._room += self._weights.popleft()
            self.dropped += 1

    @property
    def left(self) -> int:
        return self._room


class Reading:
    """Reads the journals of a run folder, one node after the other: `for journal in Reading(folder): …`."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(path for path in folder.glob("watch-*.jsonl") if not path.name.endswith(OLD))
        self._paths = paths[:NODES]
        self._told: list[str] = []
        self._left_out = 0
        self._rooms = {Look: SAMPLES, Gone: EXITS, Glanced: GLANCES, Heard: SIGNALS, bytes: READ, int: WORK}
        if len(paths) > NODES:
            self._tell(f"{len(paths) - NODES:,} journals of watchers are left out: {NODES:,} were read")

    def told(self) -> list[str]:
        """What was left out, in words."""
        more = self._left_out - TOLD
        return [*self._told, f"{more:,} more files were left out"] if more > 0 else self._told

    def _tell(self, text: str) -> None:
        self._left_out += 1
        if self._left_out <= TOLD:
            self._told.append(text)

    def __iter__(self) -> Iterator[Journal]:
        for number, path in enumerate(self._paths):
            shares = {kind: room // (len(self._paths) - number) for kind, room in self._rooms.items()}
            one = _Reading(path, shares)
            for text in one.told:
                self._tell(text)
            for kind, used in one.used.items():
                self._rooms[kind] -= used
            yield one.journal


class _Reading:
    """Of one node."""

    def __init__(self, path: Path, rooms: dict[type, int]) -> None:
        self.journal = Journal()
        self.told: list[str] = []
        self._marks: list[_Mark] = []
        self._exits, self._glances = _Newest[Exit](rooms[Gone]), _Newest[Glance](rooms[Glanced])
        self._signals = _Newest[Told](rooms[Heard])
        self._bytes, self._work = rooms[bytes] // 2, rooms[int] // 2  # the newer part has what the older has left
        self._read(path.with_suffix(OLD))
        self._bytes, self._work = self._bytes + rooms[bytes] // 2, self._work + rooms[int] // 2
        self._read(path)
        taken = self._choose(rooms[Look])
        kinds: dict[type, _Newest[Any]] = {Gone: self._exits, Glanced: self._glances, Heard: self._signals}
        self.used = {kind: rooms[kind] - found.left for kind, found in kinds.items()} | {Look: taken}
        self.used |= {bytes: rooms[bytes] - self._bytes, int: rooms[int] - self._work}
        names = zip(("exits", "glances", "signals"), kinds.values(), strict=True)
        more = ", ".join(f"{found.dropped:,} {name}" for name, found in names if found.dropped)
        if more:
            self.told.append(f"{encodable(str(path))} has more than any run: its oldest {more} are left out")
        begin, node = self.journal.begin, self.journal.begin.node if self.journal.begin is not None else ""
        self.journal = Journal(
            begin,
            self.journal.ended,
            self.journal.samples,
            [msgspec.structs.replace(one, node=node) for one in self._exits.found],
            [*self._glances.found],
            [*self._signals.found],
        )

    def _read(self, path: Path) -> None:
        """The last line may be half: a watcher that is killed leaves it so."""
        try:
            parts, missing = _parts(path, self._bytes, self._work)
        except FileNotFoundError:
            return
        except OSError as error:
            self.told.append(left_out(path, error))
            return
        self._bytes -= sum(map(len, parts))
        self._work -= sum(map(_work, parts))
        bad = begun = 0
        for line in (line for part in parts for line in io.BytesIO(part) if line != b"\n"):
            found = _decoded(line)
            begun += isinstance(found, Begin)
            if found is not None:
                self._take(found, line)
            else:
                bad += line.endswith(b"\n")
        name = encodable(str(path))
        if bad > begun:  # each watcher that was killed has left half a line
            self.told.append(f"{name} is damaged: {bad:,} of its lines are left out")
        if missing:
            self.told.append(f"{name} is read in part: {missing:,} bytes after its beginning are left out")

    def _take(self, found: Line, line: bytes) -> None:
        if isinstance(found, Look):
            sample = found.sample
            entries = 1 + len(sample.processes) + len(sample.gpus) + len(sample.oom_kills)
            close = any(one.threads for one in sample.processes)
            self._marks.append(_Mark(line, len(line) + EACH * entries, close, sample.oom_kills))
        elif isinstance(found, Gone):
            self._exits.add(found.exit, len(line) + EACH_EXIT)
        elif isinstance(found, Glanced):
            self._glances.add(found.glance, len(line) + EACH * (1 + len(found.glance.frames)))
        elif isinstance(found, Heard):
            self._signals.add(found.told, len(line) + EACH)
        elif isinstance(found, Begin):
            self.journal.begin = self.journal.begin or found
        else:
            self.journal.ended = True

    def _choose(self, room: int) -> int:
        """Keeps samples for that much memory, and gives back how much it is."""
        numbers = _chosen(self._marks)
        while len(numbers) > 1 and sum(self._marks[one].weight for one in numbers) > room:
            numbers = [*numbers[:-1:2], numbers[-1]] if len(numbers) > 2 else numbers[-1:]
        taken = sum(self._marks[one].weight for one in numbers)
        if taken > room:
            self.told.append(f"the journal of {self._node()} has larger looks than any run: they are left out")
            return 0
        looks = [_decoder.decode(self._marks[one].line) for one in numbers]
        self.journal.samples = [one.sample for one in looks if isinstance(one, Look)]
        return taken

    def _node(self) -> str:
        return encodable(self.journal.begin.node) if self.journal.begin is not None else "a node"


def _decoded(line: bytes) -> Line | None:
    try:
        return _decoder.decode(line) if len(line) <= LONGEST else None
    except (ValueError, RecursionError):
        return None


def _parts(path: Path, most: int, work: int) -> tuple[list[bytes], int]:
    """The file, or its beginning and its end; whole lines of both. And how many bytes were passed over."""
    with os.fdopen(open_plain(path, largest=LARGEST), "rb") as file:
        written = file.read(LARGEST)
    if len(written) <= most and _work(written) <= work:
        return [written], 0
    head = written[: min(HEAD, most // 2)]
    while _work(head) > work // 2:
        head = head[: len(head) // 2]
    tail = written[max(len(written) - (most - len(head)), len(head)) :]
    while _work(tail) > work // 2:
        tail = tail[(len(tail) + 1) // 2 :]
    head, tail = head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]
    return [head, tail], len(written) - len(head) - len(tail)


def _work(written: bytes) -> int:
    return written.count(b"\n") + written.count(b"{")


def thinned(samples: list[Sample]) -> list[Sample]:
    """Those that were looked at closely come first among the older ones. When an OOM kill was counted stays known."""
    marks = [_Mark(b"", 0, any(each.threads for each in one.processes), one.oom_kills) for one in samples]
    return [samples[number] for number in _chosen(marks)]


def _chosen(marks: list[_Mark]) -> list[int]:
    older = len(marks) - KEPT
    if older <= KEPT:
        return [*range(len(marks))]
    close = [number for number in range(older) if marks[number].close]
    some = close if len(close) >= KEPT else range(older)
    kept = {0, *(some[number * len(some) // KEPT] for number in range(1, KEPT))}
    killed = [number for number in range(1, older) if marks[number].oom_kills != marks[number - 1].oom_kills]
    kept |= {near for number in killed[-KEPT:] for near in (number - 1, number)}
    return [*sorted(kept), *range(older, len(marks))]
