"""A worker waits for something outside the run that does not answer: a file, a FIFO, a connection, a command.

## What it looks at
A worker that is inside a sample while the main process waits for it: the system call it stands in, what the
descriptor or path in that call points at, who is at the other end, and whether any byte moved between two looks.

## Why it happens
Reads have no time limit unless somebody sets one. A network file system whose server is gone, a connection that was
dropped without a word, a `curl` or `gsutil cat` in a pipe, a FIFO nobody writes to: they all wait for ever.

## What to do
Give every reader a time limit and a second try: `curl --max-time --speed-limit --retry`, `timeout=` of the HTTP
library or of the socket, a soft mount. Keep hot data on a local disk.

## How sure it is
Sure that this worker holds the run up and what it waits for. Whether the other side is dead or only slower than ten
seconds without a single byte cannot be seen from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.culprit import Culprit, awaited, calls, culprit, found, state
from ...model.evidence import Evidence
from ...model.look import Awaited, Holder, Seen
from ...model.report import Certainty, Finding, Remedy, Subject, Symptom
from ...model.rule import rule
from ...model.standing import LONG, asleep, fetchers, idles, in_futex, moves
from ...wording.printable import quoted

A_MINUTE = 60.0  # seconds: longer than anybody pauses between two tries
SLOW_KERNEL = "D"  # asleep in the kernel where not even SIGKILL wakes it: storage that does not answer


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes", "stacks"),
    outranks=("stuck-in-user-code", "dataloader-bound", "uncaught-exception", "main-killed"),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    for _, seen, stack in fetchers(evidence):
        awaits = _waits_for(evidence, seen)
        if awaits is None:
            continue
        one = culprit(evidence, seen, stack)
        if one.seconds < (A_MINUTE if any(map(_sleeps, awaits.holders)) else LONG):
            continue
        yield found(
            one,
            f"{one.name} waits{one.spot} for {awaited(awaits)}{_for_sample(one)}, and nothing comes.",
            [state(one), calls(one), *_about(seen, awaits)],
            _remedy(one, awaits),
            evidence,
            Subject("command" if awaits.kind in ("pipe", "child") else awaits.kind, awaits.name),
        )
        return


def _sleeps(holder: Holder) -> bool:
    """The other side pauses by itself, perhaps before it tries again."""
    return "nanosleep" in holder.wait_channel


def _waits_for(evidence: Evidence, seen: Seen) -> Awaited | None:
    """What its main thread waits for, if that lies outside and nothing of it moves."""
    task = seen.main_task
    if in_futex(task) or asleep(task) or not idles(task, seen.looked) or task.state not in ("S", "D"):
        return None
    awaits = task.awaits
    if awaits is None:
        unknown = Awaited(kind="other", name=f"the kernel ({task.wait_channel})")
        return unknown if task.state == SLOW_KERNEL else None
    if awaits.kind == "terminal" or any(holder.moving for holder in awaits.holders):
        return None
    below = [one for one in evidence.processes or () if one.parent == seen.pid]
    return None if any(moves(one) for one in below) else awaits


def _for_sample(one: Culprit) -> str:
    return "" if one.sample is None else f" (sample {one.sample})"


def _about(seen: Seen, awaits: Awaited) -> list[str]:
    told = [f"it is in the system call {seen.main_task.syscall}"] if seen.main_task.syscall else []
    told += [
        f"`{holder.command}` (pid {holder.pid}) at the other end is in state {holder.state}"
        f"{f' in {holder.wait_channel}' if holder.wait_channel else ''} and did nothing either"
        for holder in awaits.holders[:2]
    ]
    return told


def _remedy(one: Culprit, awaits: Awaited) -> Remedy:
    if awaits.kind == "fifo":
        return Remedy(
            f"Nobody writes to {awaits.name}: start its writer, or remove it from the data.",
            [f"ls -l {quoted(awaits.name)}"],
        )
    if awaits.kind == "socket":
        return Remedy(
            "Set a time limit on this connection (timeout=) and try again when it strikes.",
            [f"ss -tnp | grep {one.seen.pid}"],
        )
    if awaits.kind in ("pipe", "child"):
        return Remedy(
            "Give the command a time limit and retries: curl --max-time 60 --speed-limit 1 --retry 3, or timeout 60 "
            "COMMAND."
        )
    return Remedy(
        "See whether the storage answers, outside of the training, and read with a time limit.",
        [f"timeout 10 head -c 1 {quoted(awaits.name)} | wc -c"],
    )
