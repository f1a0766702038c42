"""Processors: those a process may run on, those it could be given, and how long they had nothing to do."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from ..wording.text import in_words, numbers
from . import cgroups
from .kernel import TICKS

CPUSETS = "cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"  # of cgroup v2, of v1, of an older v1
MOST = 8192  # processors that Linux can be built for
ONLINE = Path("/sys/devices/system/cpu/online")


def granted(pid: int) -> set[int]:
    """What its cpusets leave it: no affinity can go beyond that, and any affinity may be widened to it."""
    if _text(Path(f"/proc/{pid}/cgroup")) == _text(Path("/proc/self/cgroup")):
        return reachable()
    for folder in cgroups.folders(pid, "cpuset"):
        for name in CPUSETS:
            found = numbers(_text(folder / name))
            if found:
                return found
    return numbers(_text(ONLINE)) or set(range(os.cpu_count() or 1))


def reachable() -> set[int]:
    """The same of this thread. The kernel takes an affinity to all processors, and leaves of it what may be had."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, range(MOST))
    except OSError:
        return before
    try:
        return os.sched_getaffinity(0)
    finally:
        os.sched_setaffinity(0, before)


def allowed(pid: int) -> set[int]:
    """Its affinity. Empty: it is gone."""
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        return set()


def pinned(pid: int, could: Collection[int]) -> str:
    """Its affinity, as the kernel writes it, where it is less than it could be. A system call, no file is read."""
    found = allowed(pid)
    return in_words(found) if found and len(found) < len(could) else ""


def idle(among: Collection[int]) -> float | None:
    """Seconds for which these processors had nothing to do, all together, since the machine was started."""
    found = 0
    for line in _text(Path("/proc/stat")).splitlines()[1:]:
        name, *counted = line.split()[:6]
        if not name.startswith("cpu"):
            break
        if int(name[3:]) in among:
            found += int(counted[3]) + int(counted[4])  # idle, and idle while somebody waited for a disk
    return found / TICKS if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
