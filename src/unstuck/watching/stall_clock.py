"""Knows for how long each rank has not got on. It runs on progress alone: a process that burns time is not ahead.

Where a run could not be recorded, another clock stands in, which knows no progress, only whether anything moves at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from ..evidence.live import Stall
from ..inside import format as f
from ..inside.format import Kind, RecordingName, recording_name
from ..probes import kernel, processes
from ..recordings.boards import Board

LEAST = 10.0  # seconds: less is everyday life of a training
TIMES = 10  # of what the activity usually takes
EVERY = 2.0  # seconds between two looks at /proc
RESTING = 0.03  # of a core: what waiting costs that asks again and again
LONGEST = 5.0  # seconds between two ticks that count: a watcher that was stopped for an hour has not seen an hour
DOING = {
    0: "starting",
    Kind.LOADER: "about to ask for a batch",
    Kind.ITERATOR: "starting workers",
    Kind.WAIT: "waiting for data",
    Kind.BODY: "in the loop's body",
    Kind.PASS_END: "between passes",
    Kind.FETCH: "fetching",
    Kind.SAMPLE: "fetching",
    Kind.COLLATE: "fetching",
    Kind.IDLE: "in the loop's body",
    Kind.STAGE: "in a stage of its own",
    Kind.PROGRESS: "in the loop's body",
    Kind.SPAN: "waiting for other ranks",
    Kind.PHASE: "in a phase of its own",
    Kind.SAVE: "saving a checkpoint",
    Kind.COMPILED: "compiling",
    Kind.CALL: "in the loop's body",
    Kind.SOURCE: "reading data",
    Kind.SHUTDOWN: "ending its workers",
    Kind.SKIPPING: "waiting for data",
}


class Rank:
    """A main process with its workers."""

    def __init__(self, board: Board, now: float) -> None:
        self.board = board
        self.moved = now
        self.signatures: dict[int, bytes] = {}

    def look(self, boards: list[Board], now: float) -> bool:
        """True if anything has happened since the last look."""
        seen = {board.pid: board.signature() for board in boards}
        changed = seen != self.signatures
        if changed:
            self.signatures, self.moved = seen, now
        return changed


class StallClock:
    """All ranks of this node."""

    def __init__(self, recordings: Path) -> None:
        self._recordings = recordings
        self._boards: dict[str, Board] = {}
        self._ranks: dict[int, Rank] = {}
        self.last_moved = 0.0  # when a rank that has ended since was last seen to get on, at its end

    def tick(self, now: float, alive: Collection[RecordingName]) -> None:
        """`now` in seconds of watching; `alive`: recorded processes of this node that have not ended."""
        self._meet(alive)
        for name, board in list(self._boards.items()):
            if recording_name(name) not in alive:
                rank = self._ranks.pop(board.pid, None)
                if rank is not None and board.signature() != rank.signatures.get(board.pid):
                    self.last_moved = now
                board.close()
                del self._boards[name]
        for board in self._boards.values():
            if board.role() != f.ROLE_MAIN:
                self._ranks.pop(board.pid, None)  # it has turned out to be a launcher
            elif board.pid not in self._ranks:
                self._ranks[board.pid] = Rank(board, now)
        for pid, rank in self._ranks.items():
            rank.look(self._of(pid), now)

    def _of(self, pid: int) -> list[Board]:
        """A main process's own, and its workers'."""
        return [board for board in self._boards.values() if pid in (board.pid, board.parent)]

    def each(self) -> list[tuple[int, Rank]]:
        """Main processes by pid, in the order of their ranks."""
        return sorted(self._ranks.items(), key=lambda one: (one[1].board.rank() or 0, one[0]))

    def pids(self) -> list[int]:
        return [pid for pid, _ in self.each()]

    def begun(self) -> bool:
        """One of them has made a step, or has had two batches."""
        return any(rank.board.begun() for rank in self._ranks.values())

    def anyone(self) -> bool:
        """Anything at all is recorded: a launcher, a rank, a worker."""
        return bool(self._boards)

    def ranks(self) -> int:
        return len(self._ranks)

    def moved(self) -> float | None:
        """When any rank last got on: a run gets on for as long as one of its ranks does. None: there is none yet."""
        return max((rank.moved for rank in self._ranks.values()), default=None)

    def stall(self, now: float, age: float, patience: float) -> Stall | None:
        """The rank that got on last, and for how long even it has not. `age`: of the run, in seconds."""
        if not self._ranks:
            return None
        pid, rank = max(self._ranks.items(), key=lambda one: one[1].moved)
        kind, key, _ = rank.board.newest()
        return Stall(
            rank=rank.board.rank(),
            pid=pid,
            since=round(age - (now - rank.moved), 3),
            seconds=round(now - rank.moved, 3),
            doing=DOING.get(kind, ""),
            usual=rank.board.usual(kind, key) if kind else None,
            patience=patience,
            blind=not rank.board.tells_progress(),
        )

    def _meet(self, alive: Collection[RecordingName]) -> None:
        try:
            names = os.listdir(self._recordings)
        except OSError:
            return
        for name in names:
            if name not in self._boards and recording_name(name) in alive:
                try:
                    self._boards[name] = Board(self._recordings / name)
                except (OSError, ValueError):
                    continue


def limit(stall: Stall) -> float:
    """How long this activity may take before it is looked into."""
    return max(LEAST, TIMES * stall.usual) if stall.usual is not None else LEAST


class LivenessClock:
    """Stands in while no process of the command has a recording: by their processor time, and the bytes they move."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._training: int | None = None
        self._moved: float | None = None
        self._used: dict[int, tuple[float, tuple[int, int]]] = {}
        self._looked = 0.0

    @property
    def training(self) -> int | None:
        """A process of the command that runs torch."""
        return self._training

    def tick(self, now: float) -> None:
        if now - self._looked < EVERY:
            return
        passed, self._looked = now - self._looked, now
        used = {pid: seen for pid in self._family() if (seen := self._used_by(pid)) is not None}
        if self._training is None:
            self._training = next((pid for pid in used if kernel.maps_torch(pid)), None)
        if self._training is not None and (self._moved is None or self._moves(used, passed)):
            self._moved = now
        self._used = used

    def _family(self) -> list[int]:
        return processes.Tree().below(self._pid)

    def _used_by(self, pid: int) -> tuple[float, tuple[int, int]] | None:
        """By its main thread: loggers and heartbeats have threads of their own, and live on in a run that hangs."""
        seen = kernel.stat(pid, pid)
        return None if seen is None else (seen.cpu, kernel.moved(pid, pid))

    def _moves(self, used: dict[int, tuple[float, tuple[int, int]]], passed: float) -> bool:
        if used.keys() != self._used.keys():
            return True
        cpu = sum(now[0] - self._used[pid][0] for pid, now in used.items())
        return cpu > RESTING * passed * max(len(used), 1) or any(
            now[1] != self._used[pid][1] for pid, now in used.items()
        )

    def moved(self) -> float | None:
        return self._moved

    def stall(self, now: float, age: float, patience: float) -> Stall | None:
        if self._moved is None or self._training is None:
            return None
        return Stall(
            rank=None,
            pid=self._training,
            since=round(age - (now - self._moved), 3),
            seconds=round(now - self._moved, 3),
            doing="standing",
            patience=patience,
        )


class WatchedTime:
    """Seconds for which the run was watched. Ctrl-Z, a suspended laptop, a machine that swaps: none of it counts.

    It is never ahead of the run's own clock, so a stall may be told late by as much as was missed, and never early.
    """

    def __init__(self) -> None:
        self._before = time.monotonic()
        self.now = 0.0

    def tick(self) -> float:
        passed, self._before = time.monotonic() - self._before, time.monotonic()
        self.now += min(passed, LONGEST)
        return self.now
