"""Lock files that a thread polls for: which file, how old it is, who holds it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..model.look import Awaited, Frame, Stack
from ..model.recorded import Process
from . import descriptors, kernel, owners

PATIENCE = 5.0  # seconds
DEPTH, ENTRIES = 3, 256  # folders below each other, entries of each
FILE_LOCK = "filelock"
BATON = "torch/utils/file_baton.py"
WAITING_STAGE = "waiting for a lock file"  # as the adapter inside calls it


def awaited(stack: Stack, process: Process | None) -> Awaited | None:
    """The lock file that this thread waits for, if it does. Its name is empty where nothing tells it."""
    calls = stack.calls
    if any(FILE_LOCK in one.file and one.name == "acquire" for one in calls):
        path = next((one.locals["lock_filename"] for one in calls if "lock_filename" in one.locals), "")
        return _looked_at(stack.pid, lambda: _unquoted(path))
    if any(BATON in one.file and one.name == "wait" for one in calls):
        return _looked_at(stack.pid, lambda: _baton(stack.pid, calls, process))
    return None


def _looked_at(pid: int, name: Callable[[], str]) -> Awaited:
    """By the user who waits: the path is a word of that process, and so is the folder that is searched for it."""
    try:
        return owners.as_owner(owners.owner_of(pid), lambda: _lock(pid, name()), Awaited, PATIENCE)
    except owners.Refused:
        return Awaited(kind="lock file", name="")


def _baton(pid: int, calls: list[Frame], process: Process | None) -> str:
    stages = [one.item for one in process.stages_now if one.name == WAITING_STAGE] if process else []
    if stages and stages[-1]:
        return stages[-1]
    folder = next((_unquoted(one.locals["build_directory"]) for one in calls if "build_directory" in one.locals), "")
    if folder:
        return os.path.join(folder, "lock")
    variables = kernel.environment(pid)
    home = variables.get("TORCH_EXTENSIONS_DIR") or os.path.join(variables.get("HOME", ""), ".cache/torch_extensions")
    found = list(itertools.islice(_locks_below(home, DEPTH), 2))
    return found[0] if len(found) == 1 else ""


def _locks_below(folder: str, depth: int) -> Iterator[str]:
    """As torch lays them out: PYTHON_DEVICE/EXTENSION/lock. Another program's variable may name any folder at all."""
    try:
        with os.scandir(folder) as entries:
            few = list(itertools.islice(entries, ENTRIES))
    except OSError:
        return
    yield from (one.path for one in few if one.name == "lock" and not one.is_dir(follow_symlinks=False))
    for one in few if depth else ():
        if one.is_dir(follow_symlinks=False):
            yield from _locks_below(one.path, depth - 1)


def _lock(pid: int, path: str) -> Awaited:
    seen = f"/proc/{pid}/root{path}" if path.startswith("/") else f"/proc/{pid}/cwd/{path}"
    try:
        there = os.stat(seen)
    except (OSError, ValueError):
        return Awaited(kind="lock file", name=path)
    device = f"{os.major(there.st_dev):02x}:{os.minor(there.st_dev):02x}:{there.st_ino}"
    holders = [descriptors.holder(one) for one in _holders(device, there.st_ino) if one != pid]
    age = max(time.time() - there.st_mtime, 0.0)
    return Awaited(kind="lock file", name=path, holders=holders, age=round(age, 1))


def _holders(device: str, inode: int) -> list[int]:
    """Who holds a lock on this file, by the kernel's own list. Devices are named differently on some file systems."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    held = [line.split() for line in lines if " -> " not in line]
    exact = [int(words[4]) for words in held if words[5] == device]
    return exact or [int(words[4]) for words in held if words[5].endswith(f":{inode}")]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
