"""The machine as the training sees it: memory by kind, limits, kills, shared memory, descriptors, disk, GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from ..evidence import Memory, Sample
from ..evidence.live import Gpu
from . import cgroups, kernel
from .waits import blocked_at

OF_MEMINFO = re.compile(rb"^(MemAvailable|MemTotal|Cached):\s+(\d+)", re.MULTILINE)
OF_VMSTAT = re.compile(rb"^(oom_kill) (\d+)", re.MULTILINE)
OF_STATUS = re.compile(rb"^(RssAnon|RssFile|RssShmem|Threads|nonvoluntary_ctxt_switches):\s+(\d+)", re.MULTILINE)
OF_IO = re.compile(rb"^(rchar|read_bytes): (\d+)", re.MULTILINE)
OF_PRESSURE = re.compile(rb"^(some) avg10=(\d+)", re.MULTILINE)
OF_SMAPS = re.compile(rb"^(Private_Clean|Private_Dirty):\s+(\d+)", re.MULTILINE)
LARGE = 256 << 20  # bytes: a worker that holds nothing but torch has less
GPU_DRIVERS = ("/proc/driver/nvidia", "/dev/dxg")

Disk = Callable[[str], tuple[int, int] | None]


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
    found = [
        msgspec.structs.replace(process, waits=blocked_at(process.pid)) if process.pid in mains else process
        for process in seen.processes
    ]
    return msgspec.structs.replace(seen, processes=found)


def with_processors(seen: Sample, granted: Collection[int]) -> Sample:
    """The same, and where they may run, of the processors that they could be given."""
    found = [msgspec.structs.replace(one, pinned=cgroups.pinned(one.pid, granted)) for one in seen.processes]
    return msgspec.structs.replace(seen, processes=found, idle=cgroups.idle(granted))


def counters_after(last: Sample, at: float) -> Sample:
    """The last sample with its counters as they stand now, after the processes are gone."""
    kills = {**last.oom_kills, **cgroups.oom_kills_now(groups_in(last))}
    machine = _fields("/proc/vmstat", OF_VMSTAT).get("oom_kill")
    if machine is not None and "machine" in kills:
        kills["machine"] = machine
    return msgspec.structs.replace(last, at=round(at, 3), oom_kills=kills, processes=[])


def groups_in(sample: Sample) -> list[str]:
    return [name for name in sample.oom_kills if name != "machine"]


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
    moved, used = _fields(f"/proc/{pid}/io", OF_IO), kernel.stat(pid)
    main_cpu, queued = kernel.ran_and_queued(pid, pid)
    return msgspec.structs.replace(
        seen,
        descriptors=kernel.descriptors(pid),
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


def file_system(path: Path, *, mount_only: bool = False) -> str:
    """The kind of the mount that a path is on, the innermost. `mount_only`: only if the path is one itself."""
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in _mounts().splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        inside = real == point or real.startswith(f"{point.rstrip('/')}/")
        if inside and len(point) >= len(best):  # the last of several at one point covers the others
            best, kind = point, after.split()[0]
    return kind if not mount_only or best == real else ""


def _mounts() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""


class WatchedGpus:
    """Asked again and again for as long as a run lasts: the driver is opened once, and let go if it does not answer."""

    def __init__(self) -> None:
        self._opened = any(os.path.exists(one) for one in GPU_DRIVERS)
        self._pynvml: Any = None

    def look(self) -> list[Gpu]:
        if not self._opened:
            return []
        import pynvml

        try:
            if self._pynvml is None:
                pynvml.nvmlInit()
                self._pynvml = pynvml
            return [_gpu(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError:
            self._opened = False
            return []


def gpus() -> list[Gpu] | None:
    """Every GPU of this machine and who uses it. None: there is none, or its driver does not answer.

    Written against NVML's documentation; not tried on a machine that has one.
    """
    if not any(os.path.exists(one) for one in GPU_DRIVERS):
        return None
    import pynvml  # large, and of no use where there is no driver

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return [_gpu(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _gpu(pynvml: Any, number: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    try:
        used = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    except pynvml.NVMLError:  # a slice of a shared GPU has no rate of its own
        used = None
    try:
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        running = []
    return Gpu(
        number=number,
        busy=None if used is None else used / 100,
        used=int(memory.used),
        total=int(memory.total),
        processes={int(one.pid): int(one.usedGpuMemory or 0) for one in running},
    )
