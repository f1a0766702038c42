"""Ends everything that a trial has started, and takes away what it left in /dev/shm."""

from __future__ import annotations

import glob
import os
import re
import signal
import time
from pathlib import Path

import psutil

from ..inside import run_folder

SHM = Path("/dev/shm")
OURS = re.compile(r"(torch_|sem\.mp-|psm_|wnsm_)")  # as torch and multiprocessing name what they make there
PATIENCE = 3.0  # seconds for a process to be gone after it was killed


def below(pid: int) -> list[int]:
    """The process and all that it and its children have started, as far as their parents live."""
    found, left = [], [pid]
    while left:
        one = left.pop()
        found.append(one)
        for task in glob.glob(f"/proc/{one}/task/*/children"):
            try:
                left += map(int, Path(task).read_text().split())
            except OSError:
                continue
    return found


def family(pid: int, folder: Path) -> list[int]:
    """These, and whoever carries the mark of the run: launchers put ranks into other sessions, orphans lose parents."""
    mark = f"{run_folder.FOLDER}={folder}".encode()
    marked = [one for one in psutil.pids() if one != os.getpid() and mark in _environment(one)]
    return [one for one in {*below(pid), *marked} if _alive(one)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end(pid: int, folder: Path) -> None:
    """All of them but ourselves, again until nobody is left: one that is being killed may still start another."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        left = [one for one in family(pid, folder) if one != os.getpid()]
        for one in left:
            send(one, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def listed() -> set[str]:
    try:
        return set(os.listdir(SHM))
    except OSError:
        return set()


def sweep(before: set[str]) -> None:
    """Remove what has come since and nobody has open: a process that was killed could not."""
    for name in listed() - before:
        path = SHM / name
        if OURS.match(name) and not _is_open(path):
            path.unlink(missing_ok=True)


def _is_open(path: Path) -> bool:
    """In use by any process whose maps can be read; one that cannot be read counts as a user of it."""
    try:
        if path.stat().st_uid != os.getuid():
            return True
    except OSError:
        return True
    wanted = str(path).encode()
    for process in psutil.process_iter():
        try:
            if wanted in Path(f"/proc/{process.pid}/maps").read_bytes():
                return True
        except OSError:
            continue
    return False
