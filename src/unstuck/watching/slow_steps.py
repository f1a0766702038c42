"""Looks at a main thread when what it does takes long, so that afterwards it is known at which line that was.

Nothing is paused: py-spy reads the stack while the thread runs. It costs a quarter of a second of somebody else's
processor, so that looks come ever more seldom, and only the first few ranks of a node are looked at.
"""

from __future__ import annotations

import io
import os
import subprocess
import time
from collections import Counter
from typing import IO

from ..evidence import Glance
from ..inside.format import Kind
from ..probes import stack_dumps
from .follow import Journal
from .stall_clock import DOING, Rank, StallClock

LONG = 2.0  # seconds: a loop's body that takes less is mostly computing
TIMES = 5  # of what it usually takes
OFTEN = 3  # times that it was met blocked at the same thing, one after the other or not
FIRST, LAST, GROWTH = 2.0, 120.0, 1.5  # seconds between two looks: at first, at most, and how they grow
RANKS = 4
PATIENCE = 8.0  # seconds for one py-spy
MOST = 64  # looks in a run
# A thread that is blocked here holds the training up, whoever called it. Pipes also carry batches, but not while a loop
# is in its body.
HOLDS_UP = ("write", "writev", "sendto", "sendmsg", "recvfrom", "recvmsg", "connect", "fsync", "fdatasync")
BODY = (Kind.BODY, Kind.PASS_END, Kind.CALL, Kind.STAGE, Kind.PHASE)


class Glances:
    """Of one node."""

    def __init__(self, clock: StallClock, journal: Journal) -> None:
        self._clock, self._journal = clock, journal
        self._blocked: Counter[tuple[int, str]] = Counter()
        self._every, self._due, self._taken = FIRST, 0.0, 0
        self._looking: subprocess.Popen[bytes] | None = None
        self._answer: IO[bytes] = io.BytesIO()
        self._deadline = 0.0
        self._about = Glance(at=0.0, pid=0, doing="", since=0.0)

    def mains(self) -> list[int]:
        """Whose main threads are asked what they wait for."""
        return self._clock.pids()[:RANKS]

    def tick(self, now: float, waits: dict[int, str]) -> None:
        """`now`: age of the run in seconds; `waits`: what each of them was blocked at a moment ago."""
        self._finish(now)
        if self._looking is not None or now < self._due or self._taken >= MOST:
            return
        for pid, rank in self._clock.each()[:RANKS]:
            if self._wanted(pid, rank, waits.get(pid, "")):
                self._look(now, pid, rank, waits.get(pid, ""))
                return

    def _wanted(self, pid: int, rank: Rank, blocked: str) -> bool:
        kind, key, since = rank.board.newest()
        if not kind:
            return False
        if kind in BODY and blocked.startswith(HOLDS_UP):
            self._blocked[pid, blocked] += 1
            if self._blocked[pid, blocked] >= OFTEN:
                self._blocked[pid, blocked] = 0
                return True
        usual = rank.board.usual(kind, key)
        return time.monotonic() - since / 1e9 >= max(LONG, TIMES * (usual or 0.0))

    def _look(self, now: float, pid: int, rank: Rank, blocked: str) -> None:
        program = stack_dumps.py_spy()
        if program is None:
            self._taken = MOST
            return
        kind, _, since = rank.board.newest()
        begun = now - (time.monotonic() - since / 1e9)
        self._about = Glance(
            at=round(now, 3),
            pid=pid,
            doing=DOING.get(kind, ""),
            since=round(begun, 3),
            waits=blocked,
        )
        self._taken += 1
        self._due, self._every = now + self._every, min(self._every * GROWTH, LAST)
        try:
            self._answer = os.fdopen(os.memfd_create("glance"), "w+b")
            self._looking = subprocess.Popen(
                stack_dumps.command(program, pid, "--nonblocking"),
                stdin=subprocess.DEVNULL,
                stdout=self._answer,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:  # no descriptor, no process, no memory: there will be another time
            return
        self._deadline = now + PATIENCE

    def _finish(self, now: float) -> None:
        looking = self._looking
        if looking is None or (looking.poll() is None and now < self._deadline):
            return
        done = looking.poll() == 0
        self._answer.seek(0)
        said = self._answer.read() if done else b""
        self.close()
        frames = [one.frames for one in stack_dumps.threads(said) if one.tid == self._about.pid]
        if frames:
            self._journal.glance(self._about, frames[0])

    def close(self) -> None:
        looking, self._looking = self._looking, None
        if looking is None:
            return
        if looking.poll() is None:
            looking.kill()
            looking.wait()
        self._answer.close()
