"""Knows for how long each rank has not got on. It runs on progress alone: a process that burns time is not ahead."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from ..evidence.live import Stall
from ..inside import format as f
from ..inside.format import Kind, RecordingName, recording_name
from .boards import Board

LEAST = 10.0  # seconds: less is everyday life of a training
TIMES = 10  # of what the activity usually takes
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
