"""What a thread that stands in a system call waits for: the file, pipe, socket or child behind the call's arguments."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable

import psutil

from ..evidence.live import Awaited, Holder
from ..inside.redaction import redacted_arguments
from . import kernel, owners
from .kernel import Call

ENOUGH = 8  # holders that are named, descriptors of one poll that are looked at
BY_DESCRIPTOR = {
    "read", "write", "pread64", "pwrite64", "readv", "writev", "connect", "accept", "accept4", "sendto", "recvfrom",
    "sendmsg", "recvmsg", "fcntl", "flock", "fsync", "fdatasync", "getdents", "getdents64",
}  # fmt: skip
BY_PATH = {"open": 0, "openat": 1, "newfstatat": 1}  # which argument is the path
PATH_MAX = 4096
P_PID = 1  # waitid's way to say that one process is waited for
TRACKERS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker")
PATIENCE = 5.0  # seconds for a file system to answer as another user


def awaited(pid: int, call: Call, family: Iterable[int]) -> Awaited | None:
    """What the call is about. Pipes that are only polled are looked for in the run's own family of processes."""
    if call.name in BY_DESCRIPTOR:
        return _behind(pid, call.arguments[0], psutil.pids())
    if call.name in BY_PATH:
        return _path(pid, call.arguments[BY_PATH[call.name]])
    if call.name in ("wait4", "waitid"):
        return _children(pid, family, _named_child(call))
    found = [one for fd in polled(pid, call) if (one := _behind(pid, fd, family)) is not None]
    return min(found, key=_telling, default=None)


def polled(pid: int, call: Call) -> list[int]:
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
    link = f"/proc/{pid}/fd/{descriptor}"
    try:
        target = os.readlink(link)
        mode = os.stat(link).st_mode
    except OSError:
        return None
    kind = kind_of(target, mode)
    if kind == "socket":
        return Awaited(kind=kind, name=_socket(pid, descriptor, target), descriptor=descriptor)
    if kind == "pipe":
        ours = _direction(pid, descriptor)
        ends = [one for one in _holders(target, where) if one != pid and (_directions(one, target) - {ours})]
        return Awaited(kind=kind, name=target, descriptor=descriptor, holders=[holder(one) for one in ends])
    return Awaited(kind=kind, name=target, descriptor=descriptor)


def kind_of(target: str, mode: int) -> str:
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
    seen = f"/proc/{pid}/root{path}" if path.startswith("/") else f"/proc/{pid}/cwd/{path}"
    try:
        mode = owners.as_owner(owners.owner_of(pid), lambda: os.stat(seen).st_mode, int, PATIENCE)
        kind = kind_of(path, mode)
    except (OSError, owners.Refused):  # a file that is not there yet, or a file system that does not answer
        kind = "file"
    return Awaited(kind=kind, name=path)


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


def _holders(target: str, where: Iterable[int]) -> list[int]:
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
