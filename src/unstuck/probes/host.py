"""The machine as the training sees it: memory by kind, limits, kills, shared memory, descriptors, disk."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..model.evidence import Memory, Sample
from . import cgroups


def sample(pid: int, others: Iterable[int], folder: Path, at: float, groups: Iterable[str] = ()) -> Sample:
    """One look, through the eyes of process `pid`: its cgroup, its mounts.

    `groups` are cgroups it is known to have been in: a process that has just ended is in none, and that is when their
    counters matter most.
    """
    memory = cgroups.memory(pid)
    meminfo = _fields(Path("/proc/meminfo"))
    machine = _fields(Path("/proc/vmstat")).get("oom_kill")
    kills = {**cgroups.oom_kills_now(list(groups)), **memory.oom_kills}
    if machine is not None:
        kills["machine"] = machine
    shm = _disk(f"/proc/{pid}/root/dev/shm") or _disk("/dev/shm") or (None, None)
    return Sample(
        at=round(at, 3),
        available=meminfo.get("MemAvailable", 0) * 1024,
        total=meminfo.get("MemTotal", 0) * 1024,
        limit=memory.limit,
        used=memory.used,
        peak=memory.peak,
        oom_kills=kills,
        shm_size=shm[0],
        shm_free=shm[1],
        disk_free=(_disk(str(folder)) or (None, None))[1],
        processes=[found for one in others if (found := _memory_of(one)) is not None],
    )


def counters_after(last: Sample, at: float) -> Sample:
    """The last sample with its counters as they stand now, after the processes are gone."""
    kills = {**last.oom_kills, **cgroups.oom_kills_now(groups_in(last))}
    machine = _fields(Path("/proc/vmstat")).get("oom_kill")
    if machine is not None and "machine" in kills:
        kills["machine"] = machine
    return msgspec.structs.replace(last, at=round(at, 3), oom_kills=kills, processes=[])


def groups_in(sample: Sample) -> list[str]:
    return [name for name in sample.oom_kills if name != "machine"]


def cpus(pid: int) -> int:
    """Processors this process may use: its affinity, and what cgroups grant."""
    try:
        allowed = len(os.sched_getaffinity(pid))
    except OSError:
        allowed = os.cpu_count() or 1
    quota = cgroups.processor_quota(pid)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def descriptor_limit(pid: int) -> int | None:
    try:
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
    except (OSError, ValueError):
        return None


def _memory_of(pid: int) -> Memory | None:
    found = _fields(Path(f"/proc/{pid}/status"))
    if "RssAnon" not in found:
        return None
    try:
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        descriptors = None
    return Memory(
        pid=pid,
        private=found["RssAnon"] * 1024,
        files=found.get("RssFile", 0) * 1024,
        shared=found.get("RssShmem", 0) * 1024,
        descriptors=descriptors,
    )


def _fields(path: Path) -> dict[str, int]:
    """Numbers of a /proc file whose lines are a name, a colon or space, and a number."""
    found = {}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        name, *rest = line.replace(":", " ", 1).split()
        if rest and rest[0].isdigit():
            found[name] = int(rest[0])
    return found


def _disk(path: str) -> tuple[int, int] | None:
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
