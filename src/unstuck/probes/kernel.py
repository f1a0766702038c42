"""Reads what the kernel tells about one process or one of its threads in /proc, as far as this user may see it."""

from __future__ import annotations

import os
import resource
import threading
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

TICKS = os.sysconf("SC_CLK_TCK")
# Numbers of system calls in which a thread can stand for long, by machine; elsewhere the wait channel has to do.
_X86 = {
    0: "read", 1: "write", 2: "open", 7: "poll", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 23: "select",
    34: "pause", 35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg",
    47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 78: "getdents", 128:
    "rt_sigtimedwait", 202: "futex", 217: "getdents64", 230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid",
    257: "openat", 262: "newfstatat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4",
}  # fmt: skip
_ARM = {
    22: "epoll_pwait", 25: "fcntl", 32: "flock", 56: "openat", 61: "getdents64", 63: "read", 64: "write", 65: "readv",
    66: "writev", 67: "pread64", 68: "pwrite64", 72: "pselect6", 73: "ppoll", 79: "newfstatat", 82: "fsync",
    83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep", 137: "rt_sigtimedwait",
    202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 242: "accept4",
    260: "wait4",
}  # fmt: skip
SYSCALLS = {"x86_64": _X86, "aarch64": _ARM}.get(os.uname().machine, {})


class Stat(NamedTuple):
    """The first line of what /proc knows of a process or thread."""

    name: str
    state: str
    parent: int
    faults: int
    page_ins: int  # faults that had to wait for storage
    cpu: float
    started: int  # ticks since the machine started: with the pid, who it is
    processor: int  # that it runs on, or last ran on

    def age(self) -> float:
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / TICKS, 0.0)


class Call(NamedTuple):
    """The system call that a thread stands in."""

    name: str
    arguments: tuple[int, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """Memory by kind and the like."""

    uid: int = 0
    anonymous: int = 0
    files: int = 0
    shared: int = 0
    traced_by: int = 0
    caught: int = 0  # signals that have a handler, as a bit mask
    ignored: int = 0  # and those that do nothing
    switches: int = 0
    preempted: int = 0  # of these: it would have gone on


def stat(pid: int, tid: int | None = None) -> Stat | None:
    """None: it is gone."""
    try:
        text = Path(_place(pid, tid), "stat").read_bytes()
    except OSError:
        return None
    name, _, rest = text.partition(b"(")[2].rpartition(b")")
    words = rest.split()
    cpu = (int(words[11]) + int(words[12])) / TICKS
    parent, faults, page_ins, started, processor = (int(words[number]) for number in (1, 7, 9, 19, 36))
    return Stat(name.decode("utf-8", "replace"), words[0].decode(), parent, faults, page_ins, cpu, started, processor)


def status(pid: int, tid: int | None = None) -> Status:
    found: dict[str, str] = {}
    for line in _text(pid, tid, "status").splitlines():
        name, _, value = line.partition(":")
        found[name] = value.strip()
    slept, preempted = (_number(found, one) for one in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"))
    return Status(
        uid=_number(found, "Uid"),
        anonymous=_number(found, "RssAnon") * 1024,
        files=_number(found, "RssFile") * 1024,
        shared=_number(found, "RssShmem") * 1024,
        traced_by=_number(found, "TracerPid"),
        caught=int(found.get("SigCgt") or "0", 16),
        ignored=int(found.get("SigIgn") or "0", 16),
        switches=slept + preempted,
        preempted=preempted,
    )


class Moved(NamedTuple):
    """Bytes so far: read and written by system calls, from wherever; and what storage had to give for it."""

    read: int = 0
    written: int = 0
    fetched: int = 0  # also of mapped files, which no system call reads


def transfers(pid: int, tid: int | None = None) -> Moved:
    """All zero where this user may not know."""
    found = dict(line.split(": ") for line in _text(pid, tid, "io").splitlines() if ": " in line)
    return Moved(*(int(found.get(name, 0)) for name in ("rchar", "wchar", "read_bytes")))


def moved(pid: int, tid: int | None = None) -> tuple[int, int]:
    """Bytes it has read and written in all, from wherever. (0, 0) where this user may not know."""
    return transfers(pid, tid)[:2]


def descriptors(pid: int) -> int | None:
    """How many it has open. None where this user may not know."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def descriptor_limit(pid: int) -> int | None:
    try:
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
    except (OSError, ValueError):
        return None


def threads(pid: int) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def wait_channel(pid: int, tid: int | None = None) -> str:
    channel = _text(pid, tid, "wchan").strip()
    return "" if channel == "0" else channel


def call(pid: int, tid: int | None = None) -> Call:
    words = _text(pid, tid, "syscall").split()
    if not words or not words[0].isdigit():
        return Call("")
    name = SYSCALLS.get(int(words[0]), f"system call {words[0]}")
    return Call(name, tuple(int(word, 16) for word in words[1:7]))


def memory(pid: int, address: int, size: int) -> bytes:
    """Bytes of its memory, which whoever may trace it may also read. Empty if not."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
            file.seek(address)
            return file.read(size)
    except (OSError, ValueError, OverflowError):
        return b""


def ran_at(pid: int, tid: int | None = None) -> float | None:
    """When it last ran, in seconds on its processor's clock. None where the kernel keeps that to itself."""
    for line in _text(pid, tid, "sched").splitlines():
        if line.startswith("se.exec_start"):
            return float(line.rpartition(":")[2]) / 1e3
    return None


def queued(pid: int, tid: int) -> float:
    """Seconds for which it could have run but had no processor."""
    return ran_and_queued(pid, tid)[1]


def ran_and_queued(pid: int, tid: int) -> tuple[float, float]:
    words = _text(pid, tid, "schedstat").split()
    return (int(words[0]) / 1e9, int(words[1]) / 1e9) if len(words) > 1 else (0.0, 0.0)


def scheduler_now(processor: int) -> float | None:
    """The same clock, by the one thread that certainly runs there at this moment: this one, which goes there for it.

    Each processor has its own, which leaves out what a hypervisor took from it: on a virtual machine they were found
    seconds apart. None: this process may not run on that processor.
    """
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {processor})
    except OSError:
        return None
    try:
        os.sched_yield()
        return ran_at(os.getpid(), threading.get_native_id())
    finally:
        os.sched_setaffinity(0, allowed)


def command(pid: int) -> list[str]:
    return [word for word in _text(pid, None, "cmdline").split("\0") if word]


def environment(pid: int) -> dict[str, str]:
    """As it was when the program was started."""
    return dict(entry.partition("=")[::2] for entry in _text(pid, None, "environ").split("\0") if "=" in entry)


def maps_torch(pid: int) -> bool:
    return "libtorch" in _text(pid, None, "maps")


def mapped(pid: int, ending: str) -> list[str]:
    """Files in its memory whose names end like this."""
    lines = _text(pid, None, "maps").splitlines()
    return [line.split(maxsplit=5)[5] for line in lines if line.endswith(ending)]


def program(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def _place(pid: int, tid: int | None) -> str:
    return f"/proc/{pid}" if tid is None else f"/proc/{pid}/task/{tid}"


def _text(pid: int, tid: int | None, name: str) -> str:
    try:
        return Path(_place(pid, tid), name).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _number(found: dict[str, str], name: str) -> int:
    first = found.get(name, "").split()
    return int(first[0]) if first and first[0].isdigit() else 0
