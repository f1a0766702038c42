"""The machine as the training sees it: memory by kind, limits, kills, shared memory, descriptors, disk."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import msgspec

from ..evidence import Memory, Sample
from . import cgroups, processors
from .blocked import waits
from .kernel import descriptors as count
from .kernel import ran_and_queued, stat

OF_MEMINFO = re.compile(rb"^(MemAvailable|MemTotal|Cached):\s+(\d+)", re.MULTILINE)
OF_VMSTAT = re.compile(rb"^(oom_kill) (\d+)", re.MULTILINE)
OF_STATUS = re.compile(rb"^(RssAnon|RssFile|RssShmem|Threads|nonvoluntary_ctxt_switches):\s+(\d+)", re.MULTILINE)
OF_IO = re.compile(rb"^(rchar|read_bytes): (\d+)", re.MULTILINE)
OF_SMAPS = re.compile(rb"^(Private_Clean|Private_Dirty):\s+(\d+)", re.MULTILINE)
LARGE = 256 << 20  # bytes: a worker that holds nothing but torch has less
Disk = Callable[[str], tuple[int, int] | None]
OF_PRESSURE = re.compile(rb"^(some) avg10=(\d+)", re.MULTILINE)


def sample(
    pid: int,
    others: Iterable[int],
    folder: Path,
    at: float,
    groups: Iterable[str] = (),
    *,
    closely: bool = True,
    apart: Collection[int] = (),
    disk: Disk | None = None,
) -> Sample:
    """One look, through the eyes of process `pid`: its cgroup, its mounts.

    `groups` are cgroups it is known to have been in: a process that has just ended is in none, and that is when their
    counters matter most. `closely` also counts descriptors, processor time and reads, which costs as much as the rest.
    Of those `apart` it is asked what they share with nobody: the kernel goes through all their pages, 6 ms for 230 MB.
    `disk` asks for the size and room of a disk, where the process and its mounts are another user's.
    """
    memory = cgroups.memory(pid)
    meminfo = _fields("/proc/meminfo", OF_MEMINFO)
    machine = _fields("/proc/vmstat", OF_VMSTAT).get("oom_kill")
    kills = {**cgroups.oom_kills_now(list(groups)), **memory.oom_kills}
    if machine is not None:
        kills["machine"] = machine
    disk = disk or room_of
    shm = disk(f"/proc/{pid}/root/dev/shm") or room_of("/dev/shm") or (None, None)
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
        disk_free=(disk(str(folder)) or (None, None))[1],
        cached=memory.cached if memory.cached is not None else meminfo.get("Cached", 0) * 1024,
        pressure=_pressure() if closely else None,
        processes=[found for one in others if (found := _memory_of(one, closely, one in apart)) is not None],
    )


def with_waits(seen: Sample, mains: Collection[int]) -> Sample:
    """The same, and what the main threads of these are blocked at."""
    found = [msgspec.structs.replace(one, waits=waits(one.pid)) if one.pid in mains else one for one in seen.processes]
    return msgspec.structs.replace(seen, processes=found)


def with_processors(seen: Sample, granted: Collection[int]) -> Sample:
    """The same, and where they may run, of the processors that they could be given."""
    found = [msgspec.structs.replace(one, pinned=processors.pinned(one.pid, granted)) for one in seen.processes]
    return msgspec.structs.replace(seen, processes=found, idle=processors.idle(granted))


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


def _memory_of(pid: int, closely: bool, apart: bool) -> Memory | None:
    found = _fields(f"/proc/{pid}/status", OF_STATUS)
    if "RssAnon" not in found:
        return None
    seen = Memory(
        pid=pid,
        anonymous=found["RssAnon"] * 1024,
        files=found.get("RssFile", 0) * 1024,
        shared=found.get("RssShmem", 0) * 1024,
    )
    if not closely:
        return seen
    moved, used = _fields(f"/proc/{pid}/io", OF_IO), stat(pid)
    main_cpu, queued = ran_and_queued(pid, pid)
    return msgspec.structs.replace(
        seen,
        descriptors=count(pid),
        threads=found.get("Threads"),
        own=_own(pid) if apart and seen.anonymous >= LARGE else None,
        preempted=found.get("nonvoluntary_ctxt_switches"),
        cpu=round(used.cpu, 2) if used is not None else None,
        main_cpu=round(main_cpu, 3),
        queued=round(queued, 3),
        read=moved.get("rchar"),
        from_disk=moved.get("read_bytes"),
    )


def _own(pid: int) -> int | None:
    """What would be free if it ended. `RssAnon` counts pages that were shared at a fork from the beginning."""
    found = _fields(f"/proc/{pid}/smaps_rollup", OF_SMAPS)
    return sum(found.values()) * 1024 if found else None


def _pressure() -> float | None:
    some = _fields("/proc/pressure/io", OF_PRESSURE).get("some")
    return None if some is None else some / 100


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


def room_of(path: str) -> tuple[int, int] | None:
    """Bytes of the disk that it lies on, and those that are free."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
