"""How much memory a family of processes takes together, nothing counted twice. Bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import NamedTuple

WANTED = re.compile(rb"^Pss_(Anon|Shmem):\s+(\d+) kB", re.MULTILINE)

PRIVATE = re.compile(rb"^RssAnon:\s+(\d+) kB", re.MULTILINE)


class Used(NamedTuple):
    """Private memory with each one's part of what they share, and what lies in shared memory."""

    private: int
    shm: int

    @property
    def total(self) -> int:
        return self.private + self.shm


def used(pids: Collection[int], shm_before: int) -> Used:
    """Batches that are on their way between two processes are mapped by neither: only /dev/shm itself has them."""
    private = shared = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                found = dict(WANTED.findall(file.read()))
        except OSError:  # it has ended
            continue
        private += int(found.get(b"Anon", 0)) << 10
        shared += int(found.get(b"Shmem", 0)) << 10
    return Used(private, max(shared, shm_used() - shm_before))


def at_most(pids: Collection[int], shm_before: int) -> int:
    """An upper bound that costs next to nothing: what they share is counted for each of them."""
    private = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                found = PRIVATE.search(file.read())
        except OSError:
            continue
        private += int(found[1]) << 10 if found else 0
    return private + max(shm_used() - shm_before, 0)


def shm_used() -> int:
    try:
        now = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return (now.f_blocks - now.f_bfree) * now.f_frsize
