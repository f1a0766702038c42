"""What this process and its workers take: memory, processors, bytes from the disk. Read before and after."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
ANONYMOUS = re.compile(rb"^Pss_Anon:\s+(\d+) kB", re.MULTILINE)
RESIDENT = re.compile(rb"^Vm(HWM|RSS):\s+(\d+) kB", re.MULTILINE)


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


def anonymous(pids: Sequence[int]) -> int:
    """Anonymous memory of all together, shared pages counted once. 0: this kernel does not say."""
    return sum(int(found[1]) << 10 for pid in pids if (found := ANONYMOUS.search(_bytes(pid, "smaps_rollup"))))


def above(pids: Sequence[int], handed: int) -> int:
    """By how much these were larger at their largest, all at once. `handed`: bytes of that lay in shared memory."""
    over = 0
    for pid in pids:
        found = {name: int(value) << 10 for name, value in RESIDENT.findall(_bytes(pid, "status"))}
        over += max(found.get(b"HWM", 0) - found.get(b"RSS", 0) - handed, 0)
    return over


def _computed(pid: int) -> float:
    fields = _bytes(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if len(fields) > 12 else 0.0


def _read(pid: int) -> int:
    found = re.search(rb"^read_bytes: (\d+)", _bytes(pid, "io"), re.MULTILINE)
    return int(found[1]) if found else 0


def _bytes(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def shipped(batch: Any) -> int:
    """Bytes of the memory that its tensors are views of: that is what is handed over."""
    seen: dict[int, int] = {}
    _collect(batch, seen)
    return sum(seen.values())


def _collect(thing: Any, seen: dict[int, int]) -> None:
    if hasattr(thing, "untyped_storage"):
        storage = thing.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
    elif isinstance(thing, dict):
        for one in thing.values():
            _collect(one, seen)
    elif isinstance(thing, (list, tuple)):
        for one in thing:
            _collect(one, seen)
    elif hasattr(thing, "__dict__"):
        for one in vars(thing).values():
            _collect(one, seen)
