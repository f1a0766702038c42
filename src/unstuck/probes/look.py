"""One look at a live run: every process and every stack, twice, a moment apart, and what became of them meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ..analysis.stacks import is_idle_worker
from ..evidence.live import Sampled, Seen, Stack
from ..evidence.process import Process
from ..wording.text import many
from . import kernel, owners, processes, roles, sampler, stack_dumps, waits
from .sampler import Tell
from .stack_dumps import Dump

APART = 1.0  # seconds between the looks
SOON = 0.2  # the same for a glance
OFTEN = 2  # times that a thread slept between the looks: one that is blocked wakes up every few seconds at most
SAMPLED = 8  # processes at a time: each takes a py-spy of its own

Patience = Callable[["Look"], float]


class Look(msgspec.Struct, frozen=True):
    """What was seen."""

    processes: list[Seen]
    stacks: list[Stack]


def look(
    pids: Sequence[int],
    recorded: Sequence[Process],
    tell: Tell,
    patience: Patience | None = None,
    folder: Path | None = None,
) -> Look:
    """Look at these processes. What cannot be had is missing, with the reason, and never an error.

    `patience` is shown what was seen, and says for how many seconds more it has to be looked at. Native stacks come
    last: their pause makes the kernel forget how long somebody has slept, and reading them fills pages that would look
    as if the process had got on. In `folder` a recorded process leaves its stacks by itself, where ptrace is refused.
    """
    tell(f"looking at {many(len(pids), 'process')}")
    before = {pid: seen for pid in pids if (seen := processes.glance(pid)) is not None}
    first = stack_dumps.dumps([pid for pid in before if processes.is_python(pid)])
    if folder is not None:
        first = _asked(first, recorded, folder)
    # Counted from here: those that have ended meanwhile keep their first glance, and are told as ended.
    before |= {pid: seen for pid in (*before, *_others(pids)) if (seen := processes.glance(pid)) is not None}
    time.sleep(APART)
    found = _again(before, pids, first, recorded)
    more = patience(found) if patience is not None else 0.0
    if more > 0:
        tell(f"no progress; watching for another {more:.0f} s to tell stuck from slow")
        met = _sampled([one.pid for one in found.processes if _naps(one, recorded)], more)
        found = _again(before, pids, first, recorded)
        found = Look([msgspec.structs.replace(one, met=met.get(one.pid, [])) for one in found.processes], found.stacks)
    tell("reading native stacks")
    native = stack_dumps.native_dumps(_unclear(first))
    deep = {pid: dump for pid, dump in native.items() if dump.threads}
    return Look(
        [_with_reason(one, {**native, **first}) for one in found.processes],
        stack_dumps.joined({pid: first[pid] for pid in deep}, deep)
        + [one for one in found.stacks if one.pid not in deep],
    )


def _naps(seen: Seen, recorded: Sequence[Process]) -> bool:
    """Only its stacks tell whether it goes round a loop that makes progress, or polls for what never comes."""
    unknown = all(one.pid != seen.pid for one in recorded)
    return unknown and seen.role == "main" and not seen.ended and seen.main_task.switches >= OFTEN


def _sampled(pids: list[int], seconds: float) -> dict[int, list[Sampled]]:
    """What their main threads are met at in these seconds, which pass in any case."""
    end = time.monotonic() + seconds
    found = sampler.sample(pids[:SAMPLED], seconds, lambda _: None) or [] if pids else []
    time.sleep(max(end - time.monotonic(), 0.0))
    return {pid: [one for one in found if (one.pid, one.tid) == (pid, pid)] for pid in pids}


def _unclear(first: dict[int, Dump]) -> list[int]:
    """Processes of which native stacks tell more: those that wait for a lock, whose it is only they show, or compute.

    So do those of one that holds the GIL: native code that waits should have let go of it. What waits in any other
    system call is known by that call, and a worker that waits for its next index is idle.
    """
    asked = [pid for pid, dump in first.items() if not dump.refused and not _rests(pid, dump)]
    return [pid for pid in asked if _locked_or_busy(pid) or any(one.holds_gil for one in first[pid].threads)]


def _rests(pid: int, dump: Dump) -> bool:
    return any(one.tid == pid and is_idle_worker(one.calls) for one in dump.threads)


def _locked_or_busy(pid: int) -> bool:
    seen = kernel.stat(pid)
    return seen is not None and (seen.state == "R" or "futex" in kernel.wait_channel(pid))


def _asked(dumps: dict[int, Dump], recorded: Sequence[Process], folder: Path) -> dict[int, Dump]:
    """Where ptrace is refused, recorded processes write their stacks themselves. It is told: they get a signal.

    Those of this node alone: others have processes of the same number.
    """
    here = [one for one in recorded if one.node == os.uname().nodename and one.pid in dumps]
    refused = [one for one in here if stack_dumps.PTRACE in dumps[one.pid].refused]
    answers = {one.pid: _own_stacks(one, folder) for one in refused}
    told = "{}; it was asked by a signal to write its Python stacks itself"
    return {
        pid: Dump(answers[pid], told.format(dump.refused)) if answers.get(pid) else dump for pid, dump in dumps.items()
    }


def _own_stacks(process: Process, folder: Path) -> list[Stack]:
    """Asked for by the process's own user: nobody else's signal, nobody else's file."""
    try:
        return owners.as_owner(
            owners.owner_of(process.pid),
            lambda: stack_dumps.own_stacks(process, folder),
            list[Stack],
            stack_dumps.SIGNAL_LONGEST,
        )
    except owners.Refused:  # told as what it is without: ptrace is refused
        return []


def glance(pids: Sequence[int]) -> Look:
    """What they are doing, at a glance: half as thorough, and without pausing anybody who sleeps."""
    before = {pid: seen for pid in pids if (seen := processes.glance(pid)) is not None}
    python = [pid for pid in before if processes.is_python(pid)]
    first = stack_dumps.dumps(python)
    time.sleep(SOON)
    found = _again(before, pids, first, [])
    return Look([_with_reason(one, first) for one in found.processes], found.stacks)


def _again(
    before: dict[int, processes.Glance],
    pids: Sequence[int],
    first: dict[int, Dump],
    recorded: Sequence[Process],
) -> Look:
    seen = processes.second_look(before, pids)
    asked = _worth_asking(seen, first)
    slept = [pid for pid in asked if _has_slept(next(one for one in seen if one.pid == pid))]
    again = {pid: first[pid] for pid in slept} | stack_dumps.dumps([pid for pid in asked if pid not in slept])
    found = stack_dumps.joined(first, again)
    named = [_with_lock(one, found, recorded) for one in roles.assign(seen, found, recorded)]
    return Look(_with_movement(named, before), found)


def _worth_asking(seen: Sequence[Seen], first: dict[int, Dump]) -> list[int]:
    """Those that are still there and did not keep py-spy waiting the first time."""
    alive = [one.pid for one in seen if one.pid in first and not one.ended]
    return [pid for pid in alive if not first[pid].refused.startswith(stack_dumps.SILENT)]


def _has_slept(seen: Seen) -> bool:
    """No thread of it has run since the first look: its stacks are what they were."""
    return bool(seen.tasks) and all(task.switches == 0 and task.cpu == 0 for task in seen.tasks)


def _others(pids: Sequence[int]) -> list[int]:
    """Strangers at the other end of pipes that are being written to or read from now."""
    calls = [(pid, kernel.call(pid)) for pid in pids]
    awaited = [waits.awaited(pid, call, pids) for pid, call in calls if call.name in ("read", "write")]
    return [one.pid for wait in awaited if wait is not None for one in wait.holders if one.pid not in pids]


def _with_reason(seen: Seen, dumps: dict[int, Dump]) -> Seen:
    dump = dumps.get(seen.pid)
    return msgspec.structs.replace(seen, refused=dump.refused) if dump is not None and dump.refused else seen


def _with_lock(seen: Seen, found: list[Stack], recorded: Sequence[Process]) -> Seen:
    stack = next((one for one in found if one.pid == seen.pid and one.is_main), None)
    process = next((one for one in recorded if one.pid == seen.pid), None)
    lock = waits.awaited_lock(stack, process) if stack is not None else None
    return seen if lock is None else msgspec.structs.replace(seen, lock=lock)


def _with_movement(seen: list[Seen], before: dict[int, processes.Glance]) -> list[Seen]:
    """Whether those at the other end got on. Strangers that only now turned out to hold something get a short look."""
    holders = processes.holders_of(seen)
    late = [pid for pid in holders if pid not in before]
    before |= {pid: one for pid in late if (one := processes.glance(pid)) is not None}
    if late:
        time.sleep(0.3)
    after = {pid: one for pid in holders if (one := processes.glance(pid)) is not None}
    return processes.with_movement(seen, before, after)
