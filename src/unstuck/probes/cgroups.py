"""What a process may use: memory and processors, by cgroups v1 or v2, leaf and ancestors, and by its affinity."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ..safe_files import read_plain
from ..wording.text import in_words, numbers
from .kernel import TICKS

LARGEST = 1 << 22  # bytes: of /proc/PID/mountinfo, on a machine with thousands of containers
CPUSETS = "cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"  # of cgroup v2, of v1, of an older v1
MOST = 8192  # processors that Linux can be built for
ONLINE = Path("/sys/devices/system/cpu/online")
UNLIMITED = 1 << 60  # v1 writes "no limit" as a huge number


class MemoryUse(NamedTuple):
    """Of the cgroup with the smallest limit above a process. `used` leaves out page cache, which can be given back."""

    limit: int | None
    used: int | None
    peak: int | None
    oom_kills: dict[str, int]
    cached: int | None = None


def memory(pid: int) -> MemoryUse:
    chain = _chain(pid, "memory")
    kills = {str(folder): count for folder in chain if (count := _oom_kills(folder)) is not None}
    limited = [(limit, folder) for folder in chain if (limit := _limit(folder)) is not None]
    if not limited:
        return MemoryUse(None, None, None, kills, None)
    limit, folder = min(limited)
    current = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
    peak = _number(folder / "memory.peak", folder / "memory.max_usage_in_bytes")
    cached = _page_cache(folder)
    used = None if current is None else max(current - cached, 0)
    return MemoryUse(limit, used, peak, kills, cached)


def oom_kills_now(folders: list[str]) -> dict[str, int]:
    """The counters of cgroups known by name, for a look after the run."""
    return {name: count for name in folders if (count := _oom_kills(Path(name))) is not None}


def leaf(pid: int) -> str | None:
    chain = _chain(pid, "memory")
    return str(chain[0]) if chain else None


def processor_quota(pid: int) -> float | None:
    """Processors that cgroups grant, if they limit them."""
    found = []
    for folder in _chain(pid, "cpu"):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if not quota:
            quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):
            found.append(int(quota) / int(period))
    return min(found, default=None)


def cpus(pid: int) -> int:
    """Processors this process may use: its affinity, and what cgroups grant."""
    most, quota = len(allowed(pid)) or os.cpu_count() or 1, processor_quota(pid)
    return most if quota is None else max(1, min(most, int(quota)))


def granted(pid: int) -> set[int]:
    """What its cpusets leave it: no affinity can go beyond that, and any affinity may be widened to it."""
    if _text(Path(f"/proc/{pid}/cgroup")) == _text(Path("/proc/self/cgroup")):
        return _reachable()
    for folder in _chain(pid, "cpuset"):
        for name in CPUSETS:
            found = numbers(_text(folder / name))
            if found:
                return found
    return numbers(_text(ONLINE)) or set(range(os.cpu_count() or 1))


def _reachable() -> set[int]:
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


def _chain(pid: int, controller: str) -> list[Path]:
    """The cgroup folder of a process for a controller and all folders above it, leaf first."""
    unified = ""
    for line in _text(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controller in controllers.split(","):
            return _folders(pid, "cgroup", controller, path)
        if not controllers:
            unified = path
    return _folders(pid, "cgroup2", "", unified) if unified else []


def _folders(pid: int, kind: str, controller: str, path: str) -> list[Path]:
    for line in _text(Path(f"/proc/{pid}/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        mount, described = before.split(), after.split()
        if (
            len(mount) > 4
            and described
            and described[0] == kind
            and (not controller or controller in described[-1].split(","))
        ):
            root, point = mount[3], Path(mount[4])
            inner = path[len(root) :] if root != "/" and path.startswith(root) else path
            folder = point / inner.lstrip("/")
            if not folder.is_dir():
                folder = point
            return [folder, *(one for one in folder.parents if one == point or point in one.parents)]
    return []


def _limit(folder: Path) -> int | None:
    limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
    return None if limit is None or limit >= UNLIMITED else limit


def _oom_kills(folder: Path) -> int | None:
    for name in ("memory.events", "memory.oom_control"):
        for line in _text(folder / name).splitlines():
            key, _, count = line.partition(" ")
            if key == "oom_kill" and count.isdecimal():
                return int(count)
    return None


def _page_cache(folder: Path) -> int:
    wanted = {"total_inactive_file", "total_active_file"}
    found = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    if not wanted & set(found):
        wanted = {"inactive_file", "active_file"}
    return sum(int(found[name]) for name in wanted if found.get(name, "").isdecimal())


def _number(*paths: Path) -> int | None:
    for path in paths:
        text = _text(path)
        if text.isdecimal():
            return int(text)
    return None


def _text(path: Path) -> str:
    """Where a process says that cgroups are mounted for it, anything may lie here: only a plain file is read."""
    try:
        return read_plain(path, largest=LARGEST).decode("utf-8", "replace").strip()
    except OSError:
        return ""
