"""How much memory this process takes, and how much it took at most while something was made. Bytes."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
import threading
import time
from types import TracebackType

WANTED = re.compile(rb"^(VmHWM|VmRSS|RssAnon|RssFile|RssShmem):\s+(\d+) kB", re.MULTILINE)
ANONYMOUS = re.compile(rb"^Anonymous:\s+(\d+) kB", re.MULTILINE)
RESET = b"5"  # into clear_refs: the highest mark of resident memory begins anew
EVERY = 0.002  # seconds between two looks where the kernel keeps no mark


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
        self._sampler = None if self._marked else Sampler()
        self._before = status()
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall, self.cpu = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        after, before = status(), self._before
        files = max(after.get("RssFile", 0) - before.get("RssFile", 0), 0)
        if self._sampler is not None:
            self.peak = max(self._sampler.most() - before.get("RssAnon", 0), 0)
        else:
            self.peak = max(after.get("VmHWM", 0) - before.get("VmRSS", 0) - files, 0)
        self.kept = max(after.get("RssAnon", 0) - before.get("RssAnon", 0), 0)
        self.peak = max(self.peak, self.kept)

    def facts(self) -> dict[str, float]:
        return {"seconds": self.wall, "cpu": self.cpu, "peak": self.peak}


class Sampler:
    """Where the mark cannot be reset: look often, from a thread."""

    def __init__(self) -> None:
        self._most = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(EVERY):
            self._most = max(self._most, status().get("RssAnon", 0))

    def most(self) -> int:
        self._ends.set()
        self._thread.join()
        return max(self._most, status().get("RssAnon", 0))


def resident(pid: int) -> int:
    """Anonymous memory of another process, shared with a parent or not; quick to read."""
    return status(pid).get("RssAnon", 0)


def status(pid: int | str = "self") -> dict[str, int]:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return {name.decode(): int(value) << 10 for name, value in WANTED.findall(file.read())}
    except OSError:
        return {}


def own(pid: int | str = "self") -> int:
    """Private memory that no other process has: nothing that it shares with the one that forked it, or a third.

    A mapping that is shared is /dev/shm, and a file's own pages are clean.
    """
    total, mapped = 0, b""
    for line in _lines(pid):
        name, _, value = line.partition(b":")
        if name == b"Private_Dirty" and mapped.endswith(b"p"):
            total += int(value.split()[0]) << 10
        elif b"-" in line.partition(b" ")[0]:
            mapped = line.split(None, 2)[1]
    return total


def anonymous(pid: int | str = "self") -> int:
    """All memory of a process that is no file's, shared with a parent or not."""
    found = ANONYMOUS.search(b"\n".join(_lines(pid, "smaps_rollup")))
    return int(found[1]) << 10 if found else 0


def _lines(pid: int | str, file: str = "smaps") -> list[bytes]:
    try:
        with open(f"/proc/{pid}/{file}", "rb") as opened:
            return opened.read().splitlines()
    except OSError:  # it has ended
        return []


def give_back() -> None:
    """What was freed goes back to the system, so that the next thing has to take its memory anew, and shows."""
    gc.collect(1)  # not the oldest: those are the dataset's, perhaps a million of them
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and hasattr(arrow, "default_memory_pool"):
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _reset() -> bool:
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(RESET)
    except OSError:
        return False
    return "VmHWM" in status()
