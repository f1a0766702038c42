"""A main thread that computes and gets nowhere, watched for longer: which lines it meets, which files it begins again.

An endless loop shows in no single line. It shows in what goes round: the same few lines of the user's own, the same
files opened again and again, and nothing that is kept of them.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..evidence.live import Rounds, Sampled
from . import kernel, sampler

EVERY = 0.02  # seconds between two looks at the descriptors
SIZED = 0.5  # and at its memory
MANY = 64  # descriptors of one process that are looked at: one that has more open reads no few files again and again
FILES = 64  # that are told
NOT_DATA = ("/proc/", "/sys/", "/dev/", "/memfd:")


class _Open(NamedTuple):
    """One file or folder, as one descriptor has it."""

    path: str
    position: int


class _Watched:
    """One process while it is watched."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.began = time.monotonic()
        self.first = _counters(pid)
        self.open: dict[int, _Open] = {}
        self.again: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.furthest: dict[str, tuple[int, float]] = {}  # position, and when it was reached
        self.anonymous: list[tuple[float, int]] = []

    def look(self) -> None:
        now, at = _open_files(self.pid), time.monotonic()
        for fd, one in now.items():
            if one.path not in self.furthest or one.position > self.furthest[one.path][0]:
                self.furthest[one.path] = one.position, at
            before = self.open.get(fd)
            if before is None or before.path != one.path or one.position < before.position:
                known = one.path in self.again
                self.again[one.path] = self.again.get(one.path, -1) + 1
                if not known:
                    self.sizes[one.path] = _size(self.pid, fd)
        self.open = now
        if not self.anonymous or at - self.anonymous[-1][0] >= SIZED:
            self.anonymous.append((at, kernel.status(self.pid).anonymous))

    def rounds(self, samples: list[Sampled]) -> Rounds | None:
        """None: it has ended."""
        now = _counters(self.pid)
        if now is None or self.first is None:
            return None
        half = (self.began + time.monotonic()) / 2
        early = [size for at, size in self.anonymous if at <= half]
        late = [size for at, size in self.anonymous if at > half]
        most = sorted(self.again, key=lambda path: -self.again[path])[:FILES]
        return Rounds(
            seconds=round(now.at - self.first.at, 3),
            cpu=round(now.cpu - self.first.cpu, 3),
            queued=round(now.queued - self.first.queued, 3),
            read=now.moved[0] - self.first.moved[0],
            written=now.moved[1] - self.first.moved[1],
            grown=max(max(late, default=0) - max(early, default=0), 0) if early and late else 0,
            samples=[one for one in samples if one.pid == self.pid and one.tid == self.pid],
            files={path: self.again[path] for path in most},
            size=sum(self.sizes[path] for path in self.again),
            fresh=[path for path, (_, at) in self.furthest.items() if at > half and path in most],
        )


class _Counters(NamedTuple):
    """Of a main thread."""

    at: float
    cpu: float
    queued: float
    moved: tuple[int, int]


def watch(pids: Sequence[int], seconds: float) -> dict[int, Rounds]:
    """Their descriptors and memory by the kernel, all the time, while py-spy samples their stacks."""
    watched = [_Watched(pid) for pid in pids]
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            for one in watched:
                one.look()
            done.wait(EVERY)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        samples = sampler.sample(pids, seconds, lambda _: None) or []
    finally:
        done.set()
        thread.join()
    return {one.pid: told for one in watched if (told := one.rounds(samples)) is not None}


def _counters(pid: int) -> _Counters | None:
    main = kernel.stat(pid, pid)
    if main is None:
        return None
    return _Counters(time.monotonic(), main.cpu, kernel.queued(pid, pid), kernel.moved(pid, pid))


def _open_files(pid: int) -> dict[int, _Open]:
    """Files and folders, and where each stands. A process that has ended, or that we may not look into, has none."""
    found = {}
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)[:MANY]
    except OSError:
        return {}
    for name in names:
        try:
            path = os.readlink(f"{folder}/{name}")
        except OSError:  # it was closed meanwhile
            continue
        if path.startswith("/") and not path.startswith(NOT_DATA):
            found[int(name)] = _Open(path, _position(pid, name))
    return found


def _position(pid: int, fd: str) -> int:
    try:
        text = Path(f"/proc/{pid}/fdinfo/{fd}").read_text()
    except OSError:
        return 0
    word = text.partition("pos:")[2].split(maxsplit=1)
    return int(word[0]) if word and word[0].isdigit() else 0


def _size(pid: int, fd: int) -> int:
    """As the kernel has it open: nothing is looked up by its name."""
    try:
        seen = os.stat(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return 0
    return seen.st_size if stat.S_ISREG(seen.st_mode) else 0
