"""How much memory may be used here, and how much a family of processes takes together. Bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ..evidence.trial import Settings
from ..probes import cgroups

MACHINE, CGROUP, ASKED = "machine", "cgroup", "--memory"
SHM = "/dev/shm"
PSS = re.compile(rb"^Pss_(Anon|Shmem):\s+(\d+) kB", re.MULTILINE)
RSS = re.compile(rb"^RssAnon:\s+(\d+) kB", re.MULTILINE)


class Room(NamedTuple):
    """What there is, and who says so."""

    memory: int
    memory_of: str
    shm_size: int | None = None
    shm_free: int | None = None
    shm_of: str = MACHINE


def room(memory: int | None = None, shm: int | None = None) -> Room:
    """As it is now, what others use taken off; or as asked."""
    found, of = (memory, ASKED) if memory is not None else _memory()
    size, free = (shm, shm) if shm is not None else _shm()
    return Room(found, of, size, free, "--shm" if shm is not None else MACHINE)


def room_in(settings: Settings, memory: int | None = None) -> Room:
    """The same, from what was read of the machine already."""
    here = room(memory)
    known = [(one, of) for one, of in ((settings.memory_available, MACHINE), (_left(settings), CGROUP)) if one]
    found, of = min(known) if known and memory is None else (here.memory, here.memory_of)
    if settings.shm_size is None:
        return here._replace(memory=found, memory_of=of)
    return Room(found, of, settings.shm_size, settings.shm_free)


def memory_free(settings: Settings) -> int | None:
    """Of the machine, or of the cgroup around us, whichever has less."""
    known = [settings.memory_available] if settings.memory_available is not None else []
    if settings.memory_limit is not None:
        known.append(max(settings.memory_limit - (settings.memory_used or 0), 0))
    return min(known, default=None)


def _left(settings: Settings) -> int | None:
    return None if settings.memory_limit is None else max(settings.memory_limit - (settings.memory_used or 0), 1)


def _memory() -> tuple[int, str]:
    group = cgroups.memory(os.getpid())
    found = [(available, MACHINE)] if (available := _available()) is not None else []
    if group.limit is not None:
        found.append((max(group.limit - (group.used or 0), 1), CGROUP))
    return min(found, default=(1, MACHINE))


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _shm() -> tuple[int | None, int | None]:
    now = _file_system()
    return (None, None) if now is None else (now.f_blocks * now.f_frsize, now.f_bavail * now.f_frsize)


class Used(NamedTuple):
    """Anonymous memory, what they share counted once, and what lies in shared memory."""

    anonymous: int
    shm: int

    @property
    def total(self) -> int:
        return self.anonymous + self.shm


def used(pids: Collection[int], shm_before: int) -> Used:
    """Batches that are on their way between two processes are mapped by neither: only /dev/shm itself has them."""
    anonymous = shared = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                found = dict(PSS.findall(file.read()))
        except OSError:  # it has ended
            continue
        anonymous += int(found.get(b"Anon", 0)) << 10
        shared += int(found.get(b"Shmem", 0)) << 10
    return Used(anonymous, max(shared, shm_used() - shm_before))


def at_most(pids: Collection[int], shm_before: int) -> int:
    """An upper bound that costs next to nothing: what they share is counted for each of them."""
    anonymous = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                found = RSS.search(file.read())
        except OSError:
            continue
        anonymous += int(found[1]) << 10 if found else 0
    return anonymous + max(shm_used() - shm_before, 0)


def shm_used() -> int:
    now = _file_system()
    return 0 if now is None else (now.f_blocks - now.f_bfree) * now.f_frsize


def _file_system() -> os.statvfs_result | None:
    """Of shared memory; None: there is none here."""
    try:
        return os.statvfs(SHM)
    except OSError:
        return None
