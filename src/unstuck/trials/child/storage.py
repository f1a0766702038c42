"""What a loader reads from storage: which files it opens, and what reading them plainly gives."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import Any

MOST = 2000
NO_DATA = (".py", ".pyc", ".pyi", ".so", ".pth")
PIECE = 1 << 20
MUCH = 256 << 20  # bytes
COLD = 0.5  # of what was read came from a disk: else the page cache had it


class OpenedFiles:
    """A hook of the interpreter's own. It cannot be taken away again, only told not to listen."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}
        self.listening = False
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.listening or len(self.paths) >= MOST:
            return
        path, mode = arguments[0], arguments[1]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and (mode is None or "r" in str(mode)) and _is_data(path):
            self.paths[os.path.abspath(path)] = None

    def since(self, before: int) -> list[str]:
        return list(self.paths)[before:]


def read_plainly(paths: list[str], seconds: float) -> dict[str, Any]:
    """Each from its beginning to its end, after the page cache was asked to forget it."""
    files = [one for one in paths if _is_file(one)]
    total, opened, before, began = 0, 0, _from_disk(), time.perf_counter()
    for path in files:
        total += _read(path, began + seconds)
        opened += 1
        if total >= MUCH or time.perf_counter() - began > seconds:
            break
    took, fetched = time.perf_counter() - began, _from_disk() - before
    return {"bytes": total, "seconds": took, "files": opened, "cold": bool(total) and fetched >= COLD * total}


def counters() -> tuple[int, int]:
    """Bytes that this process has asked for, and that had to be fetched from a disk for it."""
    try:
        with open("/proc/self/io") as file:
            found = dict(line.split(": ") for line in file.read().splitlines())
    except (OSError, ValueError):
        return 0, 0
    return int(found.get("rchar", 0)), int(found.get("read_bytes", 0))


def _is_data(path: str) -> bool:
    return not path.endswith(NO_DATA) and not path.startswith(("/proc/", "/sys/", "/dev/"))


def _is_file(path: str) -> bool:
    """A pipe or a device would give up data that somebody else waits for."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _read(path: str, until: float) -> int:
    total = 0
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        while time.perf_counter() < until and (piece := os.read(descriptor, PIECE)):
            total += len(piece)
    except OSError:
        return total
    finally:
        os.close(descriptor)
    return total


def _from_disk() -> int:
    return counters()[1]
