"""Looks at what belongs to another user with the rights of that user, never with ours.

Root is asked to look at anybody's training, and what belongs to a training (its folder, its recordings, the files that
these name) is in the hands of its user. So everything that is opened, read, asked or signalled there is done in a child
that has become that user, can write no file, and hands its result back through a pipe. /proc and py-spy are looked at
by us: what they show comes from the kernel.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

import msgspec

from ..errors import UserError

T = TypeVar("T")
PATIENCE = 30.0  # seconds for one look: a folder of 1,000 ranks takes a third of that
LARGEST = 64 << 20  # bytes of a result
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38


class Owner(NamedTuple):
    """Whose rights a process has."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @property
    def is_us(self) -> bool:
        return self.uid == os.geteuid()


class Refused(Exception):  # noqa: N818  (the reason why something is left out, which is told)
    """What belongs to another user could not be looked at as that user."""


class _Result(msgspec.Struct):
    """What the child hands back: what it found, or why it found nothing."""

    found: msgspec.Raw = msgspec.Raw(b"\xc0")
    failed: str = ""
    what: str = ""
    remedy: str = ""


def owner_of(pid: int) -> Owner | None:
    """None: it has ended, or has the rights of several users at once, and so nobody in particular is its owner."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return None
    found = {name: value.split() for name, _, value in (line.partition(b":") for line in lines)}
    users, groups = (set(map(int, found.get(name, ()))) for name in (b"Uid", b"Gid"))
    if len(users) != 1 or (len(groups) != 1 and users != {os.geteuid()}):
        return None
    return Owner(users.pop(), groups.pop(), tuple(map(int, found.get(b"Groups", ()))))


def owner_of_folder(folder: Path) -> Owner | None:
    """Whose folder it is, with all groups of that user."""
    try:
        seen = os.stat(folder)
        known = pwd.getpwuid(seen.st_uid)
        return Owner(seen.st_uid, known.pw_gid, tuple(os.getgrouplist(known.pw_name, known.pw_gid)))
    except OSError:
        return None
    except KeyError:  # a user of another machine
        return Owner(seen.st_uid, seen.st_gid)


def ours() -> Owner:
    return Owner(os.geteuid(), os.getegid())


def is_anothers(folder: Path) -> bool:
    """Root is asked about somebody's folder: what lies elsewhere and is only named in it is for its owner to open."""
    owner = owner_of_folder(folder)
    return os.geteuid() == 0 and owner is not None and not owner.is_us


def grouped(pids: Iterable[int]) -> dict[Owner | None, list[int]]:
    """The processes of a run by their owners, in the order of the first of each."""
    found: dict[Owner | None, list[int]] = {}
    for pid in pids:
        found.setdefault(owner_of(pid), []).append(pid)
    return found


def as_owner(owner: Owner | None, work: Callable[[], T], kind: type[T], seconds: float = PATIENCE) -> T:
    """What `work` gives, done by its owner. Raises Refused where that cannot be, and the UserError that `work` raises.

    What `work` imports has to be imported already: a Python that root has installed may be closed to everybody else.
    """
    if owner is None:
        raise Refused("it has ended, or has the rights of several users at once")
    if owner.is_us:
        return work()
    if os.geteuid() != 0:
        raise Refused(f"it belongs to user {owner.uid}, and you are user {os.geteuid()}")
    result = _decoded(_child_says(owner, work, seconds), _Result)
    if result.what:
        raise UserError(result.what, result.remedy)
    if result.failed:
        raise Refused(f"looking as user {owner.uid} failed ({result.failed})")
    return _decoded(result.found, kind)


def _decoded(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"what was seen as its user cannot be read ({error})") from error


def _child_says(owner: Owner, work: Callable[[], T], seconds: float) -> bytes:
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        _as_child(theirs, owner, work, prctl)
    os.close(theirs)
    try:
        return _read_all(ours, time.monotonic() + seconds)
    finally:
        os.close(ours)
        _end(pid)


def _as_child(pipe: int, owner: Owner, work: Callable[[], object], prctl: Callable[..., int]) -> NoReturn:
    """Never returns, runs nothing of what the parent has planned for its own end, and says everything through the pipe.

    `dumpable` is off: the memory of this child is a copy of root's, and its user must not be able to look into it.
    """
    try:
        signal.set_wakeup_fd(-1)
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_DFL)
        _become(owner, prctl)
        result = _Result(found=msgspec.Raw(msgspec.msgpack.encode(work())))
    except UserError as error:
        result = _Result(what=error.what, remedy=error.remedy)
    except BaseException as error:  # noqa: BLE001  (whatever it is, the parent tells it)
        result = _Result(failed=f"{type(error).__name__}: {error}"[:300])
    try:
        said = memoryview(msgspec.msgpack.encode(result))
        while said:
            said = said[os.write(pipe, said) :]
    finally:
        os._exit(0)


def _become(owner: Owner, prctl: Callable[..., int]) -> None:
    os.setgroups(owner.groups)
    os.setresgid(owner.gid, owner.gid, owner.gid)
    os.setresuid(owner.uid, owner.uid, owner.uid)
    for number, value in ((PR_SET_DUMPABLE, 0), (PR_SET_NO_NEW_PRIVS, 1), (PR_SET_PDEATHSIG, signal.SIGKILL)):
        prctl(number, value, 0, 0, 0)
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    if os.getresuid() != (owner.uid,) * 3 or os.getresgid() != (owner.gid,) * 3:
        raise PermissionError("the rights of root are still there")


def _read_all(pipe: int, until: float) -> bytes:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    found = bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1e3):
            raise Refused("looking as its user took too long")
        data = os.read(pipe, 1 << 16)
        if not data:
            return bytes(found)
        found += data
        if len(found) > LARGEST:
            raise Refused("what was seen as its user is too large")


def _end(pid: int) -> None:
    """A child that hangs at a dead file system cannot be ended: it is left to whoever inherits it."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        for _ in range(100):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.01)
