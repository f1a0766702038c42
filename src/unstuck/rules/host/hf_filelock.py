"""The run waits for a lock file that another process holds, or that nobody will ever release.

## What it looks at
A main thread that polls for a lock of the `filelock` library (Hugging Face datasets, hub and transformers use it),
which file that is, who holds it by the kernel's list of locks, and whether the holder does anything.

## Why it happens
Another process of yours holds the lock and is itself stuck or left over; or the cache lies on a network file system
that does not support locks, or keeps them for a client that is gone.

## What to do
If the holder is left over, end it. If nobody holds the lock, remove the file or put the cache on a local disk
(`HF_HOME`).

## How sure it is
Sure that the run waits for this file. A holder that reads, writes or computes meanwhile is left alone: it is at work.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.culprit import calls, culprit, found
from ...model.doing import LOCK_FILE, doing
from ...model.evidence import Evidence
from ...model.look import Holder
from ...model.phrases import duration
from ...model.report import Certainty, Finding, Remedy, Subject, Symptom
from ...model.rule import rule
from ...model.standing import LONG, main_stack
from ...wording.printable import quoted


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes", "stacks"),
    outranks=("stuck-in-user-code", "dataloader-bound", "uncaught-exception", "main-killed"),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    for seen in evidence.processes or ():
        stack, lock = main_stack(evidence, seen.pid), seen.lock
        if stack is None or lock is None or doing(stack) != LOCK_FILE:
            continue
        one = culprit(evidence, seen, stack)
        if one.seconds < LONG or any(holder.moving for holder in lock.holders):
            continue
        name = lock.name or "a lock file"
        yield found(
            one,
            f"{one.name} waits{one.spot} for the lock file {name}, {_held(lock.holders)}.",
            [
                f"it has asked for the lock for at least {duration(one.seconds)}",
                calls(one),
                *(
                    f"`{holder.command}` (pid {holder.pid}, state {holder.state}) holds it and did nothing meanwhile"
                    for holder in lock.holders[:2]
                ),
                *([f"the file is {duration(lock.age)} old"] if lock.age is not None else ()),
            ],
            _remedy(name, lock.holders),
            evidence,
            Subject("file", lock.name) if lock.name else None,
        )
        return


def _held(holders: list[Holder]) -> str:
    if not holders:
        return "which no process of this machine holds: it is left over, or held from elsewhere"
    return f"which pid {holders[0].pid} holds without doing anything"


def _remedy(name: str, holders: list[Holder]) -> Remedy:
    if holders:
        pid = holders[0].pid
        return Remedy(f"See what pid {pid} is; if it is left over, end it.", [f"ps -fp {pid}", f"kill {pid}"])
    return Remedy(
        "If no other machine uses it, remove the file. Put the cache on a local disk (HF_HOME=/local/disk): network "
        "file systems often have no working locks.",
        [f"rm {quoted(name)}"],
    )
