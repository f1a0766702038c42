"""The run waits for a lock file that another process holds, or that nobody will ever release.

## What it looks at
A main thread that polls for a lock of the `filelock` library (Hugging Face datasets, hub and transformers use it),
which file that is, which process has it open with a lock by the kernel's own word, and whether that one does anything.

## Why it happens
Another process of yours holds the lock and is itself stuck or left over; or the cache lies on a network file system
that does not support locks, or keeps them for a client that is gone.

## What to do
If the holder is left over, end it; if it belongs to this run, find out what it waits for. Put the cache on a local disk
(`HF_HOME`). Remove the file only if no process anywhere holds it.

## How sure it is
Sure that the run waits for this file. A holder that reads, writes or computes meanwhile is left alone: it is at work.
Who holds it is *unknown* where not all processes can be seen: other machines, other containers, other users.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found
from ...analysis.stacks import LOCK_FILE, doing
from ...analysis.standstill import LONG, main_stack
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Awaited
from ...wording.printable import quoted
from ...wording.text import duration
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack, lock = main_stack(case, seen.pid), seen.lock
        if stack is None or lock is None or doing(stack) != LOCK_FILE:
            continue
        one = culprit(case, seen, stack)
        if one.seconds < LONG or any(holder.moving for holder in lock.holders):
            continue
        ours = {each.pid for each in (*(case.processes or ()), *(case.recording or ()))}
        name = f"the lock file {lock.name}" if lock.name else "a lock file"
        yield found(
            one,
            f"{one.name} waits{one.spot} for {name}, {_held(lock, ours)}.",
            [
                f"it has asked for the lock for at least {duration(one.seconds)}",
                calls(one),
                *(
                    f"`{holder.command}` (pid {holder.pid}, state {holder.state}) holds it and did nothing meanwhile"
                    for holder in lock.holders[:2]
                ),
                *([f"the file is {duration(lock.age)} old"] if lock.age is not None else ()),
            ],
            _remedy(lock, ours),
            case,
            Subject("file", lock.name) if lock.name else None,
        )
        return


def _held(lock: Awaited, ours: set[int]) -> str:
    if lock.holders:
        pid = lock.holders[0].pid
        return f"which pid {pid}{' of this run' if pid in ours else ''} holds without doing anything"
    if lock.soft:
        return "which is held as long as the file exists"
    if lock.unseen:
        return f"and which process holds it is unknown: {lock.unseen}"
    return "which no process of this machine holds"


def _remedy(lock: Awaited, ours: set[int]) -> Remedy:
    if lock.holders and lock.holders[0].pid in ours:
        pid = lock.holders[0].pid
        return Remedy(
            f"See what pid {pid} waits for: it is a process of this run, and has to release the lock.",
            [f"py-spy dump --pid {pid}"],
        )
    if lock.holders:
        pid = lock.holders[0].pid
        return Remedy(f"See what pid {pid} is; if it is left over, end it.", [f"ps -fp {pid}", f"kill {pid}"])
    if lock.soft and lock.name:
        return Remedy(
            "If the process that made the file has ended, remove the file.",
            [f"ls -l {quoted(lock.name)}; cat {quoted(lock.name)}", f"rm {quoted(lock.name)}"],
        )
    return Remedy(
        "Find the process that holds it, on every machine and in every container that uses this cache. Put the cache "
        "on a local disk (HF_HOME=/local/disk): network file systems often have no working locks.",
        [f"lsof {quoted(lock.name)}"] if lock.name else [],
    )
