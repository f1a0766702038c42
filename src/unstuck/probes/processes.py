"""The processes of a run: found from any one of them; and between two looks, what each thread does and what moved."""

from __future__ import annotations

import functools
import os
import pwd
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from ..errors import UserError
from ..evidence.live import Awaited, Holder, Seen, Task
from ..inside.core.run_folder import FOLDER
from ..inside.redaction import redacted_arguments
from . import kernel, owners, waits

LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed")
OURS = "unstuck.watching"
NO_LIMIT = 1 << 31  # a negative number of milliseconds
MANY = 64  # threads of one process that are looked at one by one

Clock = Callable[[int], float | None]  # of one processor


class Tree:
    """Parents and children of everything that runs here, at one moment."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}
        self.children: dict[int, list[int]] = {}
        for pid in psutil.pids():
            seen = kernel.stat(pid)
            if seen is not None:
                self.parent[pid] = seen.parent
                self.children.setdefault(seen.parent, []).append(pid)

    def above(self, pid: int) -> list[int]:
        """Its ancestors, nearest first."""
        found: list[int] = []
        while (pid := self.parent.get(pid, 0)) > 1 and pid not in found:
            found.append(pid)
        return found

    def below(self, pid: int) -> list[int]:
        """It and all that descend from it, parents first."""
        found = [pid]
        for one in found:
            found += self.children.get(one, ())
        return found


def run_of(pid: int) -> list[int]:
    """All processes of the run that this one belongs to: whatever launched it, and all below that."""
    tree = Tree()
    if pid not in tree.parent:
        raise UserError(f"there is no process {pid} on this machine", "`unstuck why` lists the trainings it can see")
    _may_look(pid)
    found = [one for one in tree.below(_top(tree, pid)) if not is_ours(one)]
    if not any(is_python(one) for one in found):
        remedy = "name the pid of a Python process; `unstuck why` lists the trainings it can see"
        raise UserError(f"process {pid} ({kernel.program(pid) or 'unknown'}) runs no Python", remedy)
    return found


def _top(tree: Tree, pid: int) -> int:
    """The uppermost process of its run: a launcher, or a training whose own code it runs as a child.

    A notebook, a test runner or a sweep may have torch in memory too. What they start by a command is a run by itself.
    """
    top = pid
    for one in tree.above(pid):
        if is_ours(one):
            break
        if is_launcher(one) or (kernel.maps_torch(one) and _is_part_of(top, one)):
            top = one
    return top


def _is_part_of(pid: int, other: int) -> bool:
    """Forked, which shows in the same command, or started by multiprocessing."""
    command = kernel.command(pid)
    return command == kernel.command(other) or any("multiprocessing" in word for word in command[:8])


def all_runs() -> list[list[int]]:
    """Every training that this user can see, each as its processes, the topmost first."""
    tree = Tree()
    trainings = {pid for pid in tree.parent if is_python(pid) and not is_ours(pid) and kernel.maps_torch(pid)}
    tops = sorted({_top(tree, pid) for pid in trainings})
    return [[one for one in tree.below(top) if not is_ours(one) and _nearest(tree, one, tops) == top] for top in tops]


def _nearest(tree: Tree, pid: int, tops: list[int]) -> int | None:
    return next((one for one in [pid, *tree.above(pid)] if one in tops), None)


def is_python(pid: int) -> bool:
    program = kernel.program(pid) or (kernel.command(pid) or [""])[0]
    return os.path.basename(program).startswith(("python", "pypy"))


def is_launcher(pid: int) -> bool:
    words = [os.path.basename(word) for word in kernel.command(pid)[:4]]
    return any(word in LAUNCHERS for word in words)


def is_ours(pid: int) -> bool:
    words = kernel.command(pid)[:3]
    return pid == os.getpid() or OURS in words or any(os.path.basename(word) == "unstuck" for word in words)


class RunFolder(NamedTuple):
    """The folder of a recorded run, and whose process led to it: with that user's rights it is read."""

    folder: Path | None = None
    owner: owners.Owner | None = None
    refused: tuple[str, ...] = ()  # why folders were not looked for


def sees_our_files(pid: int) -> bool:
    """A container has files of its own under the same names."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return False


def run_folder(pids: list[int]) -> RunFolder:
    """Where its recordings are mapped from, or what its processes were started with."""
    refused: list[str] = []
    for owner, mine in owners.grouped(pids).items():
        try:
            folder = owners.as_owner(owner, lambda mine=mine: _folder_of(mine), str)  # type: ignore[misc]
        except owners.Refused as error:
            there = [str(pid) for pid in mine if kernel.stat(pid) is not None]
            refused += [f"files of pid {', '.join(there)} were not looked at: {error}"] if there else []
            continue
        if folder:
            return RunFolder(Path(folder), owner, tuple(refused))
    return RunFolder(refused=tuple(refused))


def _folder_of(pids: list[int]) -> str:
    for pid in pids:
        for path in kernel.mapped(pid, ".rec"):
            if Path(path).parent.name == "recordings" and Path(path).exists():
                return str(Path(path).parents[1])
    for pid in pids:
        folder = kernel.environment(pid).get(FOLDER, "")
        if folder and Path(folder, "recordings").is_dir():
            return folder
    return ""


def _may_look(pid: int) -> None:
    owner = kernel.status(pid).uid
    if os.geteuid() not in (0, owner):
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = str(owner)
        remedy = "look as root" if owner == 0 else f"look as {name} or as root"
        raise UserError(f"process {pid} belongs to {name}, and you may not look into it", remedy)


SLEEP = "clock_nanosleep"


class Thread(NamedTuple):
    """What one thread has used so far."""

    cpu: float = 0.0
    switches: int = 0
    read: int = 0
    written: int = 0
    queued: float = 0.0
    page_ins: int = 0
    fetched: int = 0
    preempted: int = 0
    ticks: bool = False  # asleep by its own clock at this moment


class Glance(NamedTuple):
    """One process at one moment: what is needed to tell later what moved."""

    at: float
    stat: kernel.Stat
    status: kernel.Status
    moved: tuple[int, int]
    tasks: dict[int, Thread]


def glance(pid: int) -> Glance | None:
    """None: it is gone."""
    seen = kernel.stat(pid)
    if seen is None:
        return None
    tasks = {}
    for tid in kernel.threads(pid)[:MANY]:
        task = kernel.stat(pid, tid)
        if task is not None:
            own, moved, queued = kernel.status(pid, tid), kernel.transfers(pid, tid), kernel.queued(pid, tid)
            tasks[tid] = Thread(
                task.cpu, own.switches, moved.read, moved.written, queued, task.page_ins, moved.fetched, own.preempted,
                _ticks(kernel.call(pid, tid)),
            )  # fmt: skip
    return Glance(time.monotonic(), seen, kernel.status(pid), kernel.moved(pid), tasks)


def second_look(before: dict[int, Glance], pids: Sequence[int]) -> list[Seen]:
    """Every process, with what moved since the first look. One that has ended meanwhile is told as ended."""
    now = functools.cache(kernel.scheduler_now)
    looks = [_look(pid, before.get(pid), pids, now) for pid in pids]
    return [one for one in looks if one is not None]


def _look(pid: int, before: Glance | None, family: Sequence[int], now: Clock) -> Seen | None:
    after = glance(pid)
    if after is None or (before is not None and after.stat.started != before.stat.started):
        return None if before is None else _ended(pid, before)
    then = before or after
    return Seen(
        node=os.uname().nodename,
        pid=pid,
        parent=after.stat.parent,
        role="",
        name=after.stat.name,
        command=redacted_arguments(kernel.command(pid)),
        age=round(after.stat.age(), 3),
        state=after.stat.state,
        wait_channel=kernel.wait_channel(pid),
        tasks=[_task(pid, tid, then, after, family, now) for tid in after.tasks],
        looked=round(after.at - then.at, 3),
        cpu=round(after.stat.cpu - then.stat.cpu, 3),
        read=after.moved[0] - then.moved[0],
        written=after.moved[1] - then.moved[1],
        faults=after.stat.faults - then.stat.faults,
        anonymous=after.status.anonymous,
        files=after.status.files,
        shared=after.status.shared,
        anonymous_grown=after.status.anonymous - then.status.anonymous,
        files_grown=after.status.files - then.status.files,
        shared_grown=after.status.shared - then.status.shared,
        descriptors=kernel.descriptors(pid),
        descriptor_limit=kernel.descriptor_limit(pid),
        traced_by=after.status.traced_by,
    )


def _ended(pid: int, before: Glance) -> Seen:
    node = os.uname().nodename
    return Seen(node=node, pid=pid, parent=before.stat.parent, role="", name=before.stat.name, state="X", ended=True)


def _task(pid: int, tid: int, before: Glance, after: Glance, family: Sequence[int], now: Clock) -> Task:
    seen = kernel.stat(pid, tid)
    call = kernel.call(pid, tid)
    now_used, used = after.tasks[tid], before.tasks.get(tid, Thread())
    return Task(
        tid=tid,
        name=seen.name if seen else "",
        state=seen.state if seen else "X",
        wait_channel=kernel.wait_channel(pid, tid),
        syscall=SLEEP if _sleeps(call) else call.name,
        awaits=waits.awaited(pid, call, family),
        futex=call.arguments[0] if call.name == "futex" else 0,
        limited=_limited(call),
        ticked=used.ticks,
        cpu=round(now_used.cpu - used.cpu, 3),
        cpu_total=now_used.cpu,
        switches=now_used.switches - used.switches,
        preempted=now_used.preempted - used.preempted,
        read=now_used.read - used.read,
        written=now_used.written - used.written,
        queued=round(now_used.queued - used.queued, 3),
        page_ins=now_used.page_ins - used.page_ins,
        fetched=now_used.fetched - used.fetched,
        still=_still(pid, tid, now),
    )


def _sleeps(call: kernel.Call) -> bool:
    """Python 3.10 sleeps in a select on nothing."""
    return call.name == SLEEP or (call.name in ("select", "pselect6") and call.arguments[0] == 0 and _limited(call))


def _ticks(call: kernel.Call) -> bool:
    return _sleeps(call) or (call.name == "futex" and _limited(call))


def _limited(call: kernel.Call) -> bool:
    """The wait has a time limit. Some calls take it at once, some as the address of one."""
    if call.name == "poll":
        return call.arguments[2] < NO_LIMIT
    at = {"futex": 3, "ppoll": 2, "select": 4, "pselect6": 4, "rt_sigtimedwait": 2}.get(call.name)
    return at is not None and call.arguments[at] != 0


def _still(pid: int, tid: int, now: Clock) -> float | None:
    before, ran, after = kernel.stat(pid, tid), kernel.ran_at(pid, tid), kernel.stat(pid, tid)
    if before is None or after is None or ran is None:
        return None
    if before.processor != after.processor:
        return 0.0  # it runs
    clock = now(after.processor)
    return None if clock is None else round(max(clock - ran, 0.0), 3)


def holders_of(seen: Sequence[Seen]) -> set[int]:
    """Everybody at the other end of something."""
    awaited = [task.awaits for one in seen for task in one.tasks] + [one.lock for one in seen]
    return {holder.pid for wait in awaited if wait is not None for holder in wait.holders}


def with_movement(seen: list[Seen], before: dict[int, Glance], after: dict[int, Glance]) -> list[Seen]:
    """The same with every holder told as moving or not."""
    moving = {pid for pid, later in after.items() if pid in before and _moves(before[pid], later)}
    return [_marked(one, moving) for one in seen]


def _moves(before: Glance, after: Glance) -> bool:
    return after.stat.cpu > before.stat.cpu or after.moved != before.moved


def _marked(seen: Seen, moving: set[int]) -> Seen:
    def mark(awaits: Awaited | None) -> Awaited | None:
        if awaits is None:
            return None
        held = [_holder(one, moving) for one in awaits.holders]
        return msgspec.structs.replace(awaits, holders=held)

    tasks = [msgspec.structs.replace(task, awaits=mark(task.awaits)) for task in seen.tasks]
    return msgspec.structs.replace(seen, tasks=tasks, lock=mark(seen.lock))


def _holder(one: Holder, moving: set[int]) -> Holder:
    return msgspec.structs.replace(one, moving=one.pid in moving)
