"""Lock files that a thread polls for: which file, how old it is, who holds it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..evidence.live import Awaited, Frame, Stack
from ..evidence.process import Process
from . import descriptors, kernel, owners, stacks

PATIENCE = 5.0  # seconds
DEPTH, ENTRIES = 3, 256  # folders below each other, entries of each
FILE_LOCK = "filelock"
BATON = "torch/utils/file_baton.py"
WAITING_STAGE = "waiting for a lock file"  # as the adapter inside calls it
LONGEST = 4096  # characters of a path
MACHINE = "pid:[4026531836]"  # the first namespace of processes: the kernel's own number of it
SHARED = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "lustre",
    "ceph",
    "beegfs",
    "gpfs",
    "glusterfs",
    "9p",
    "virtiofs",
    "afs",
    "orangefs",
    "wekafs",
    "fuse",
)  # fmt: skip  (file systems on which a lock may be held from another machine)


class _File(msgspec.Struct):
    """A lock file, as the user who waits for it sees it."""

    device: int
    inode: int
    age: float


def awaited(stack: Stack, process: Process | None) -> Awaited | None:
    """The lock file that this thread waits for, if it does. Its name is empty where nothing tells it, or not all."""
    calls = stack.calls
    if any(FILE_LOCK in one.file and one.name == "acquire" for one in calls):
        held = [one.locals for one in calls if FILE_LOCK in one.file]
        soft = any("SoftFileLock" in one.get("self", "") for one in held)
        shown = next((one["lock_filename"] for one in held if "lock_filename" in one), "")
        if stacks.is_cut(shown):
            shown = stacks.whole_local(stack.pid, FILE_LOCK, "lock_filename", LONGEST)
        path = "" if stacks.is_cut(shown, LONGEST) else _unquoted(shown)
        return _looked_at(stack.pid, lambda: path, soft=soft)
    if any(BATON in one.file and one.name == "wait" for one in calls):
        return _looked_at(stack.pid, lambda: _baton(stack.pid, calls, process), soft=True)
    return None


def _looked_at(pid: int, name: Callable[[], str], *, soft: bool) -> Awaited:
    """By the user who waits: the path is a word of that process, and so is the folder that is searched for it.

    Who holds the lock is told by the kernel, which we ask ourselves: other users' processes, too.
    """
    unknown = Awaited(kind="lock file", name="", unseen="its path is not known", soft=soft)
    try:
        path, file = owners.as_owner(
            owners.owner_of(pid), lambda: _found(pid, name()), tuple[str, _File | None], PATIENCE
        )
    except owners.Refused:
        return unknown
    if not path:
        return unknown
    if file is None:
        return msgspec.structs.replace(unknown, name=path, unseen="the file could not be looked at")
    pids, unseen = ([], "") if soft else _holders(pid, path, file)
    holders = [descriptors.holder(one) for one in pids if one != pid]
    return Awaited(
        kind="lock file",
        name=path,
        holders=holders,
        age=round(file.age, 1),
        unseen="" if holders else unseen,
        soft=soft,
    )


def _baton(pid: int, calls: list[Frame], process: Process | None) -> str:
    stages = [one.item for one in process.stages_now if one.name == WAITING_STAGE] if process else []
    if stages and stages[-1]:
        return stages[-1]
    shown = next((one.locals["build_directory"] for one in calls if "build_directory" in one.locals), "")
    folder = "" if stacks.is_cut(shown) else _unquoted(shown)
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


def _found(pid: int, path: str) -> tuple[str, _File | None]:
    seen = f"/proc/{pid}/root{path}" if path.startswith("/") else f"/proc/{pid}/cwd/{path}"
    try:
        there = os.stat(seen)
    except (OSError, ValueError):
        return path, None
    return path, _File(there.st_dev, there.st_ino, max(time.time() - there.st_mtime, 0.0))


def _holders(waiting: int, path: str, file: _File) -> tuple[list[int], str]:
    """Live processes that hold a lock on this file, and why there may be others.

    By what each has open: a lock stays with whoever inherited the file, in whichever namespace, after the process that
    took it has ended. The kernel's list names only the latter.
    """
    found, closed = [], 0
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            if _holds(pid, os.path.basename(path), file):
                found.append(pid)
        except PermissionError:
            closed += _lives(pid)
        except OSError:  # it has ended meanwhile
            continue
    listed = _listed(file)
    found += [pid for pid in listed if pid not in found and _lives(pid)]
    return found, _unseen(waiting, file, closed, taken=bool(listed))


def _lives(pid: int) -> bool:
    seen = kernel.stat(pid)
    return seen is not None and seen.state not in "ZX"


def _holds(pid: int, name: str, file: _File) -> bool:
    """A file of this name and number that it has open with a lock: seen from another namespace, its folder differs."""
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        try:
            if os.path.basename(os.readlink(f"{folder}/{fd}")) != name:
                continue
            lines = Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines()
        except FileNotFoundError:
            continue
        if any(line.startswith("lock:") and f":{file.inode} " in line for line in lines):
            return True
    return False


def _listed(file: _File) -> list[int]:
    """Who took a lock on this file, by the kernel's own list. They may have ended since."""
    device = f"{os.major(file.device):02x}:{os.minor(file.device):02x}:{file.inode}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    held = [line.split() for line in lines if " -> " not in line]
    return [int(words[4]) for words in held if words[5] == device]


def _unseen(waiting: int, file: _File, closed: int, *, taken: bool) -> str:
    system = _file_system(waiting, file)
    if system.partition(".")[0] in SHARED:
        return f"it is on {system}, and another machine may hold it"
    if _namespace() != MACHINE:
        return "processes outside of this container cannot be seen"
    if closed:
        return "processes of other users cannot be looked into without root"
    return "the process that took it has ended" if taken else ""


def _file_system(pid: int, file: _File) -> str:
    device = f"{os.major(file.device)}:{os.minor(file.device)}"
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    words = [line.split() for line in lines]
    return next((one[one.index("-") + 1] for one in words if len(one) > 4 and one[2] == device and "-" in one), "")


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
