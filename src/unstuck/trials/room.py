"""How much memory may be used here: of the machine, of its cgroup, in /dev/shm. Bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ..evidence.trial import Settings
from ..probes import cgroups

MACHINE, CGROUP, ASKED = "machine", "cgroup", "--memory"
SHM = "/dev/shm"


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
    try:
        now = os.statvfs(SHM)
    except OSError:
        return None, None
    return now.f_blocks * now.f_frsize, now.f_bavail * now.f_frsize
