"""How much memory a family of processes takes together, nothing counted twice. Bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import NamedTuple

WANTED = re.compile(rb"^Pss_(Anon|Shmem):\s+(\d+) kB", re.MULTILINE)

ANONYMOUS = re.compile(rb"^RssAnon:\s+(\d+) kB", re.MULTILINE)


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
                found = dict(WANTED.findall(file.read()))
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
                found = ANONYMOUS.search(file.read())
        except OSError:
            continue
        anonymous += int(found[1]) << 10 if found else 0
    return anonymous + max(shm_used() - shm_before, 0)


def shm_used() -> int:
    try:
        now = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return (now.f_blocks - now.f_bfree) * now.f_frsize
