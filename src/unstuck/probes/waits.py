"""What a thread waits for: the file, pipe, socket or child behind its system call, or the lock file that it wants."""

from __future__ import annotations

import itertools
import os
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import psutil

from ..evidence.live import Awaited, Frame, Holder, Stack
from ..evidence.process import Process
from ..inside.redaction import redacted_arguments
from . import kernel, owners, stack_dumps
from .kernel import Call

ENOUGH = 8  # holders that are named, descriptors of one poll that are looked at
BY_DESCRIPTOR = {
    "read", "write", "pread64", "pwrite64", "readv", "writev", "connect", "accept", "accept4", "sendto", "recvfrom",
    "sendmsg", "recvmsg", "fcntl", "flock", "fsync", "fdatasync", "getdents", "getdents64",
}  # fmt: skip
BY_PATH = {"open": 0, "openat": 1, "newfstatat": 1}  # which argument is the path
PATH_MAX = 4096  # bytes, and characters
P_PID = 1  # waitid's way to say that one process is waited for
TRACKERS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker")
PATIENCE = 5.0  # seconds for a file system to answer as another user
DEPTH, ENTRIES = 3, 256  # folders below each other in which lock files are looked for, entries of each
FILE_LOCK = "filelock"
BATON = "torch/utils/file_baton.py"
WAITING_STAGE = "waiting for a lock file"  # as the adapter inside calls it
FIRST_NAMESPACE = "pid:[4026531836]"  # of processes, outside of all containers: the kernel's own number of it
SHARED = {
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
}  # fmt: skip  (file systems on which a lock may be held from another machine)


def awaited(pid: int, call: Call, family: Iterable[int]) -> Awaited | None:
    """What the call is about. Pipes that are only polled are looked for in the run's own family of processes."""
    if call.name in BY_DESCRIPTOR:
        return _behind(pid, call.arguments[0], psutil.pids())
    if call.name in BY_PATH:
        return _path(pid, call.arguments[BY_PATH[call.name]])
    if call.name in ("wait4", "waitid"):
        return _children(pid, family, _named_child(call))
    found = [one for fd in _polled(pid, call) if (one := _behind(pid, fd, family)) is not None]
    return min(found, key=_telling, default=None)


def awaited_lock(stack: Stack, process: Process | None) -> Awaited | None:
    """The lock file that this thread waits for, if it does. Its name is empty where nothing tells it, or not all."""
    calls = stack.calls
    if any(FILE_LOCK in one.file and one.name == "acquire" for one in calls):
        held = [one.locals for one in calls if FILE_LOCK in one.file]
        soft = any("SoftFileLock" in one.get("self", "") for one in held)
        shown = next((one["lock_filename"] for one in held if "lock_filename" in one), "")
        if stack_dumps.is_cut(shown):
            shown = stack_dumps.whole_local(stack.pid, FILE_LOCK, "lock_filename", PATH_MAX)
        path = "" if stack_dumps.is_cut(shown, PATH_MAX) else _unquoted(shown)
        return _lock_at(stack.pid, lambda: path, soft=soft)
    if any(BATON in one.file and one.name == "wait" for one in calls):
        return _lock_at(stack.pid, lambda: _baton(stack.pid, calls, process), soft=True)
    return None


def blocked_at(pid: int) -> str:
    """What its main thread is blocked at, in two words: `write terminal`, `recvfrom socket`, `poll pipe`, `futex`.

    Cheap enough to be asked every second. Empty: it runs, or nobody may know.
    """
    call = kernel.call(pid)
    if not call.name:
        return ""
    behind = [call.arguments[0]] if call.name in BY_DESCRIPTOR else _polled(pid, call)[:1]
    found = _kind_and_target(pid, behind[0]) if behind else None
    return f"{call.name} {found[0] if found is not None else ''}".strip()


def _polled(pid: int, call: Call) -> list[int]:
    """Descriptors of a poll, a select or an epoll."""
    if call.name in ("poll", "ppoll"):
        size = min(call.arguments[1], ENOUGH) * 8
        memory = kernel.memory(pid, call.arguments[0], size)
        return [fd for fd, _, _ in struct.iter_unpack("=ihh", memory[: len(memory) // 8 * 8]) if fd >= 0]
    if call.name in ("select", "pselect6"):
        found = []
        for pointer in call.arguments[1:3]:
            bits = int.from_bytes(kernel.memory(pid, pointer, 128), "little") if pointer else 0
            found += [fd for fd in range(min(call.arguments[0], 1024)) if bits >> fd & 1]
        return found[:ENOUGH]
    if call.name in ("epoll_wait", "epoll_pwait"):
        return _in_epoll(pid, call.arguments[0])
    return []


def _telling(one: Awaited) -> int:
    """A socket or terminal says more about a poll than a pipe, a pipe more than an eventfd."""
    return ("socket", "terminal", "fifo", "pipe", "file", "other").index(one.kind)


def _in_epoll(pid: int, descriptor: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/fdinfo/{descriptor}") as file:
            return [int(line.split()[1]) for line in file if line.startswith("tfd:")][:ENOUGH]
    except OSError:
        return []


def _behind(pid: int, descriptor: int, where: Iterable[int]) -> Awaited | None:
    found = _kind_and_target(pid, descriptor)
    if found is None:
        return None
    kind, target = found
    if kind == "socket":
        return Awaited(kind=kind, name=_socket(pid, descriptor, target), descriptor=descriptor)
    if kind == "pipe":
        ours = _direction(pid, descriptor)
        ends = [one for one in _processes_with(target, where) if one != pid and (_directions(one, target) - {ours})]
        return Awaited(kind=kind, name=target, descriptor=descriptor, holders=[holder(one) for one in ends])
    return Awaited(kind=kind, name=target, descriptor=descriptor)


def _kind_and_target(pid: int, descriptor: int) -> tuple[str, str] | None:
    """None: it is closed by now, or this user may not know."""
    link = f"/proc/{pid}/fd/{descriptor}"
    try:
        target = os.readlink(link)
        return _kind(target, os.stat(link).st_mode), target
    except OSError:
        return None


def _kind(target: str, mode: int) -> str:
    if stat.S_ISSOCK(mode):
        return "socket"
    if stat.S_ISFIFO(mode):
        return "pipe" if target.startswith("pipe:") else "fifo"
    if stat.S_ISCHR(mode) and target.startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
        return "terminal"
    return "file" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "other"


def _path(pid: int, address: int) -> Awaited | None:
    path = kernel.memory(pid, address, PATH_MAX).partition(b"\0")[0].decode("utf-8", "replace")
    if not path:
        return None
    try:
        mode = owners.as_owner(owners.owner_of(pid), lambda: os.stat(_from_here(pid, path)).st_mode, int, PATIENCE)
        kind = _kind(path, mode)
    except (OSError, owners.Refused):  # a file that is not there yet, or a file system that does not answer
        kind = "file"
    return Awaited(kind=kind, name=path)


def _from_here(pid: int, path: str) -> str:
    """The path by which we come to what that process means by it."""
    return f"/proc/{pid}/root{path}" if path.startswith("/") else f"/proc/{pid}/cwd/{path}"


def _named_child(call: Call) -> int:
    """The pid that wait4 or waitid was given; 0: it waits for any of them."""
    first, second = (argument & 0xFFFFFFFF for argument in call.arguments[:2])
    named = first if call.name == "wait4" else second if first == P_PID else 0
    return named if named < 1 << 31 else 0  # a negative number is a process group


def _children(pid: int, family: Iterable[int], named: int) -> Awaited | None:
    """The one that is waited for, where the call says which; else all but those that multiprocessing keeps beside."""
    found = [one for one in family if (seen := kernel.stat(one)) is not None and seen.parent == pid]
    if not found:
        return None
    held = [holder(one) for one in ([named] if named in found else found[:ENOUGH])]
    held = [one for one in held if not any(part in one.command for part in TRACKERS)] or held
    return Awaited(kind="child", name=held[0].command or f"pid {held[0].pid}", holders=held)


def holder(pid: int) -> Holder:
    seen = kernel.stat(pid)
    return Holder(
        pid=pid,
        command=" ".join(redacted_arguments(kernel.command(pid)))[:200] or (seen.name if seen else ""),
        state=seen.state if seen else "",
        wait_channel=kernel.wait_channel(pid),
    )


def _processes_with(target: str, where: Iterable[int]) -> list[int]:
    return [pid for pid in where if any(one == target for _, one in _targets(pid))][:ENOUGH]


def _directions(pid: int, pipe: str) -> set[str]:
    return {_direction(pid, descriptor) for descriptor, target in _targets(pid) if target == pipe}


def _targets(pid: int) -> list[tuple[int, str]]:
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.append((int(name), os.readlink(f"/proc/{pid}/fd/{name}")))
            except OSError:
                continue
    except OSError:
        return []
    return found


def _direction(pid: int, descriptor: int) -> str:
    try:
        with open(f"/proc/{pid}/fdinfo/{descriptor}") as file:
            flags = next((int(line.split()[1], 8) for line in file if line.startswith("flags:")), 0)
    except OSError:
        return ""
    return {os.O_RDONLY: "r", os.O_WRONLY: "w"}.get(flags & os.O_ACCMODE, "rw")


def _socket(pid: int, descriptor: int, target: str) -> str:
    """`tcp 127.0.0.1:4000 -> 10.0.0.7:443 (ESTABLISHED)` where it can be told."""
    try:
        connections = psutil.Process(pid).net_connections(kind="all")
    except (psutil.Error, OSError):
        return target
    for one in connections:
        if one.fd == descriptor and isinstance(one.laddr, str):
            return f"unix socket {one.laddr or one.raddr}".strip()
        if one.fd == descriptor and one.laddr:
            there = f" -> {one.raddr.ip}:{one.raddr.port}" if one.raddr else ""
            return f"tcp {one.laddr.ip}:{one.laddr.port}{there} ({one.status})"
    return target


class _LockFile(msgspec.Struct):
    """A lock file, as the user who waits for it sees it."""

    device: int
    inode: int
    age: float


def _lock_at(pid: int, name: Callable[[], str], *, soft: bool) -> Awaited:
    """By the user who waits: the path is a word of that process, and so is the folder that is searched for it.

    Who holds the lock is told by the kernel, which we ask ourselves: other users' processes, too.
    """
    unknown = Awaited(kind="lock file", name="", unseen="its path is not known", soft=soft)
    try:
        path, file = owners.as_owner(
            owners.owner_of(pid), lambda: _lock_file(pid, name()), tuple[str, _LockFile | None], PATIENCE
        )
    except owners.Refused:
        return unknown
    if not path:
        return unknown
    if file is None:
        return msgspec.structs.replace(unknown, name=path, unseen="the file could not be looked at")
    pids, unseen = ([], "") if soft else _lock_holders(pid, path, file)
    holders = [holder(one) for one in pids if one != pid]
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
    folder = "" if stack_dumps.is_cut(shown) else _unquoted(shown)
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


def _lock_file(pid: int, path: str) -> tuple[str, _LockFile | None]:
    try:
        there = os.stat(_from_here(pid, path))
    except (OSError, ValueError):
        return path, None
    return path, _LockFile(there.st_dev, there.st_ino, max(time.time() - there.st_mtime, 0.0))


def _lock_holders(waiting: int, path: str, file: _LockFile) -> tuple[list[int], str]:
    """Live processes that hold a lock on this file, and why there may be others.

    By what each has open: a lock stays with whoever inherited the file, in whichever namespace, after the process that
    took it has ended. The kernel's list names only the latter.
    """
    found, closed = [], 0
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            if _holds_lock(pid, os.path.basename(path), file):
                found.append(pid)
        except PermissionError:
            closed += _lives(pid)
        except OSError:  # it has ended meanwhile
            continue
    listed = _listed_holders(file)
    found += [pid for pid in listed if pid not in found and _lives(pid)]
    return found, _unseen(waiting, file, closed, taken=bool(listed))


def _lives(pid: int) -> bool:
    seen = kernel.stat(pid)
    return seen is not None and seen.state not in "ZX"


def _holds_lock(pid: int, name: str, file: _LockFile) -> bool:
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


def _listed_holders(file: _LockFile) -> list[int]:
    """Who took a lock on this file, by the kernel's own list. They may have ended since."""
    device = f"{os.major(file.device):02x}:{os.minor(file.device):02x}:{file.inode}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    held = [line.split() for line in lines if " -> " not in line]
    return [int(words[4]) for words in held if words[5] == device]


def _unseen(waiting: int, file: _LockFile, closed: int, *, taken: bool) -> str:
    system = _file_system(waiting, file)
    if system.partition(".")[0] in SHARED:
        return f"it is on {system}, and another machine may hold it"
    if _namespace() != FIRST_NAMESPACE:
        return "processes outside of this container cannot be seen"
    if closed:
        return "processes of other users cannot be looked into without root"
    return "the process that took it has ended" if taken else ""


def _file_system(pid: int, file: _LockFile) -> str:
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
