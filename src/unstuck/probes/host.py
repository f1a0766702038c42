"""The machine as the training sees it: memory by kind, limits, kills, shared memory, descriptors, disk."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..model.evidence import Memory, Sample
from . import cgroups
from .kernel import descriptors as count

OF_MEMINFO = re.compile(rb"^(MemAvailable|MemTotal):\s+(\d+)", re.MULTILINE)
OF_VMSTAT = re.compile(rb"^(oom_kill) (\d+)", re.MULTILINE)
OF_STATUS = re.compile(rb"^(RssAnon|RssFile|RssShmem):\s+(\d+)", re.MULTILINE)


def sample(
    pid: int, others: Iterable[int], folder: Path, at: float, groups: Iterable[str] = (), *, descriptors: bool = True
) -> Sample:
    """One look, through the eyes of process `pid`: its cgroup, its mounts.

    `groups` are cgroups it is known to have been in: a process that has just ended is in none, and that is when their
    counters matter most. `descriptors` counts them too, which costs as much as all the rest.
    """
    memory = cgroups.memory(pid)
    meminfo = _fields("/proc/meminfo", OF_MEMINFO)
    machine = _fields("/proc/vmstat", OF_VMSTAT).get("oom_kill")
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
        processes=[found for one in others if (found := _memory_of(one, descriptors)) is not None],
    )


def counters_after(last: Sample, at: float) -> Sample:
    """The last sample with its counters as they stand now, after the processes are gone."""
    kills = {**last.oom_kills, **cgroups.oom_kills_now(groups_in(last))}
    machine = _fields("/proc/vmstat", OF_VMSTAT).get("oom_kill")
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


def _memory_of(pid: int, descriptors: bool) -> Memory | None:
    found = _fields(f"/proc/{pid}/status", OF_STATUS)
    if "RssAnon" not in found:
        return None
    return Memory(
        pid=pid,
        private=found["RssAnon"] * 1024,
        files=found.get("RssFile", 0) * 1024,
        shared=found.get("RssShmem", 0) * 1024,
        descriptors=count(pid) if descriptors else None,
    )


def _fields(path: str, wanted: re.Pattern[bytes]) -> dict[str, int]:
    """Some numbers of a /proc file whose lines are a name and a number. It is read twice a second: no more is done."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        found = wanted.findall(os.read(fd, 1 << 16))
    except OSError:  # it has just ended
        return {}
    finally:
        os.close(fd)
    return {name.decode(): int(value) for name, value in found}


def _disk(path: str) -> tuple[int, int] | None:
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
