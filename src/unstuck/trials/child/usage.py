"""What processes take: memory, processors, bytes from the disk; this one also at its most, while something is made."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

WANTED = re.compile(rb"^(VmHWM|VmRSS|RssAnon|RssFile|RssShmem):\s+(\d+) kB", re.MULTILINE)
ANONYMOUS = re.compile(rb"^Anonymous:\s+(\d+) kB", re.MULTILINE)
RESET = b"5"  # into clear_refs: the highest mark of resident memory begins anew
EVERY = 0.002  # seconds between two looks where the kernel keeps no mark
TICKS = os.sysconf("SC_CLK_TCK")
PSS = re.compile(rb"^Pss_Anon:\s+(\d+) kB", re.MULTILINE)


class Meter:
    """`with Meter() as meter: make()`; then `meter.peak` is the most above what was there before.

    The kernel keeps the highest mark of memory, files that are mapped included: what these grew by is taken off.
    """

    def __init__(self) -> None:
        self.peak = 0
        self.kept = 0  # that is still there afterwards
        self.wall = self.cpu = 0.0

    def __enter__(self) -> Meter:  # noqa: PYI034
        give_back()
        self._marked = _reset()
        self._sampler = None if self._marked else Sampler("self", EVERY)
        self._before = _status()
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall, self.cpu = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        after, before = _status(), self._before
        files = max(after.get("RssFile", 0) - before.get("RssFile", 0), 0)
        if self._sampler is not None:
            self.peak = max(self._sampler.most() - before.get("RssAnon", 0), 0)
        else:
            self.peak = max(after.get("VmHWM", 0) - before.get("VmRSS", 0) - files, 0)
        self.kept = max(after.get("RssAnon", 0) - before.get("RssAnon", 0), 0)
        self.peak = max(self.peak, self.kept)

    def facts(self) -> dict[str, float]:
        return {"seconds": self.wall, "cpu": self.cpu, "peak": self.peak}


class Sampler(threading.Thread):
    """Looks at the memory of a process often."""

    def __init__(self, pid: int | str, every: float) -> None:
        super().__init__(daemon=True)
        self._pid, self._every, self.largest, self._ends = pid, every, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ends.wait(self._every):
            self.largest = max(self.largest, resident(self._pid))

    def most(self) -> int:
        self._ends.set()
        self.join()
        return max(self.largest, resident(self._pid))


class Counted(NamedTuple):
    """Up to a moment."""

    processors: float  # seconds of computing
    read: int  # bytes that came from a disk


def counted(pids: Sequence[int]) -> Counted:
    return Counted(sum(map(_computed, pids)), sum(map(_read, pids)))


class Served:
    """How the kernel has served this thread since: on a processor, ready for one, or asleep."""

    def __init__(self) -> None:
        self._began, self._queued, self._used = time.perf_counter(), _queued(), _used()

    def blocked(self) -> float | None:
        """Share of the time in which it waited for something else than a processor. None: this kernel does not say."""
        queued, took = _queued(), time.perf_counter() - self._began
        if queued is None or self._queued is None or took <= 0:
            return None
        ready = sum(_used()) - sum(self._used) + queued - self._queued
        return min(max(1 - ready / took, 0.0), 1.0)

    def system(self) -> float:
        """Share of its processor time that went into system calls: reading, mostly, where data are loaded."""
        user, system = (now - then for now, then in zip(_used(), self._used, strict=True))
        return system / (user + system) if user + system > 0 else 0.0


def resident(pid: int | str) -> int:
    """Anonymous memory of another process, shared with a parent or not; quick to read."""
    return _status(pid).get("RssAnon", 0)


def own(pid: int | str = "self") -> int:
    """Private memory that no other process has: nothing that it shares with the one that forked it, or a third.

    A mapping that is shared is /dev/shm, and a file's own pages are clean.
    """
    total, mapped = 0, b""
    for line in _bytes(pid, "smaps").splitlines():
        name, _, value = line.partition(b":")
        if name == b"Private_Dirty" and mapped.endswith(b"p"):
            total += int(value.split()[0]) << 10
        elif b"-" in line.partition(b" ")[0]:
            mapped = line.split(None, 2)[1]
    return total


def anonymous(pid: int | str = "self") -> int:
    """All memory of a process that is no file's, shared with a parent or not."""
    found = ANONYMOUS.search(_bytes(pid, "smaps_rollup"))
    return int(found[1]) << 10 if found else 0


def anonymous_together(pids: Sequence[int]) -> int:
    """Anonymous memory of all together, shared pages counted once. 0: this kernel does not say."""
    return sum(int(found[1]) << 10 for pid in pids if (found := PSS.search(_bytes(pid, "smaps_rollup"))))


def above(pids: Sequence[int], handed: int) -> int:
    """By how much these were larger at their largest, all at once. `handed`: bytes of that lay in shared memory."""
    over = 0
    for pid in pids:
        found = _status(pid)
        over += max(found.get("VmHWM", 0) - found.get("VmRSS", 0) - handed, 0)
    return over


def give_back() -> None:
    """What was freed goes back to the system, so that the next thing has to take its memory anew, and shows."""
    gc.collect(1)  # not the oldest: those are the dataset's, perhaps a million of them
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and hasattr(arrow, "default_memory_pool"):
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(pid: int | str = "self") -> dict[str, int]:
    return {name.decode(): int(value) << 10 for name, value in WANTED.findall(_bytes(pid, "status"))}


def _reset() -> bool:
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(RESET)
    except OSError:
        return False
    return "VmHWM" in _status()


def _used() -> tuple[float, float]:
    found = resource.getrusage(resource.RUSAGE_THREAD)
    return found.ru_utime, found.ru_stime


def _queued() -> float | None:
    """Seconds that this thread was ready to run and had no processor."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _computed(pid: int) -> float:
    fields = _bytes(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if len(fields) > 12 else 0.0


def _read(pid: int) -> int:
    found = re.search(rb"^read_bytes: (\d+)", _bytes(pid, "io"), re.MULTILINE)
    return int(found[1]) if found else 0


def _bytes(pid: int | str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended
        return b""
