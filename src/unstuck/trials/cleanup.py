"""Ends everything that a trial has started, and takes away what it left in /dev/shm; at Ctrl-C as well."""

from __future__ import annotations

import ctypes
import glob
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import psutil

from ..inside.core import run_folder
from ..inside.core.run_folder import process_start
from ..probes import kernel
from ..watching.handles import Handle, handle_on

SHM = Path("/dev/shm")
TORCH = re.compile(r"torch_(\d+)_")
NAMED = ("sem.mp-", "psm_", "wnsm_")  # as multiprocessing names what it makes there
PATIENCE = 3.0  # seconds for a process to be gone after it was killed
ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
PR_SET_PDEATHSIG = 1


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


class Left(NamedTuple):
    """What processes that were killed may have left behind: who they were, and which files in /dev/shm they used."""

    pids: dict[int, float]  # and when each was started, in seconds since the epoch
    files: set[int]  # by inode: a semaphore is mapped under a name that it no longer has


def end(pid: int, folder: Path) -> Left:
    """All of them but ourselves, again until nobody is left: one that is being killed may still start another."""
    until, left = time.monotonic() + PATIENCE, Left({}, set())
    while time.monotonic() < until:
        handles = [handle for one in family(pid, folder) if one != os.getpid() and (handle := _handle(one)) is not None]
        if not handles:
            break
        # Asked again: until we had a handle on it, a pid could have gone to somebody else.
        members = set(family(pid, folder))
        for handle in handles:
            if handle.pid in members:
                left.pids[handle.pid] = _started(handle.pid)
                left.files.update(_mapped(handle.pid))
        for handle in handles:
            if handle.pid in members:
                handle.send(signal.SIGKILL)
            handle.close()
        time.sleep(0.05)
    return left


def hold(pid: int) -> None:
    """Stop all below it where they are: what grows must not grow while it is looked into."""
    handles = [handle for one in below(pid)[1:] if (handle := _handle(one)) is not None]
    # Asked again: until we had a handle on it, a pid could have gone to somebody else.
    members = set(below(pid)[1:])
    for handle in handles:
        if handle.pid in members:
            handle.send(signal.SIGSTOP)
        handle.close()


def sweep(left: Left) -> None:
    """Take away what they made in shared memory and nobody else uses. Of anybody else's, nothing is touched."""
    ours = [path for path in _entries() if _made_by(path, left)]
    others = set[int]().union(*(_mapped(one) for one in psutil.pids())) if ours else set()
    for path in ours:
        with suppress(FileNotFoundError):  # whoever made it may take it away at the same time
            if path.stat().st_ino not in others:
                path.unlink()


def heard() -> None:
    """SIGTERM and a lost terminal end a command like Ctrl-C does: what it has started is ended first.

    Once: who presses it again is impatient, and would only leave something behind.
    """

    def leave(number: int, _: FrameType | None) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
            signal.signal(number, leave)


@contextmanager
def uninterrupted() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Signals wait, but for the part that is given back: between starting and ending something, nothing may come."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    @contextmanager
    def interruptible() -> Iterator[None]:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    try:
        yield interruptible
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def detached() -> None:
    """In a child that was forked: a session of its own, signals as a new program has them, and no life after ours."""
    os.setsid()
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


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


def _handle(pid: int) -> Handle | None:
    try:
        return handle_on(pid, process_start(pid) or 0)
    except ProcessLookupError:
        return None


def _started(pid: int) -> float:
    seen = kernel.stat(pid)
    return time.time() - seen.age() if seen is not None else time.time()


def _mapped(pid: int) -> set[int]:
    """Inodes of what it has mapped from /dev/shm."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {int(fields[4]) for line in lines if "/dev/shm/" in line and len(fields := line.split(None, 5)) > 4}


def _entries() -> list[Path]:
    try:
        return [SHM / name for name in os.listdir(SHM)]
    except OSError:
        return []


def _made_by(path: Path, left: Left) -> bool:
    """torch writes the maker's pid into the name; a semaphore has no name that says whose it is."""
    named = TORCH.match(path.name)
    try:
        about = path.lstat()
    except OSError:
        return False
    if about.st_uid != os.geteuid():
        return False
    if named:  # an older one is of somebody who had this pid before, or has it in another container
        return about.st_ctime >= left.pids.get(int(named[1]), float("inf")) - 1
    return path.name.startswith(NAMED) and about.st_ino in left.files
