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
Certain that this worker holds the run up, and what it waits for. A FIFO that no process has open for writing never
answers. Whether a command, a server or storage is dead or only slow cannot be seen from here: a command is *likely*
dead after ten seconds without a byte; a connection or a file is told as *waiting*, after a minute.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.culprits import Culprit, awaited, calls, culprit, found, state
from ...analysis.progress import pages_in
from ...analysis.standstill import LONG, asleep, fetchers, idles, in_futex, moves
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Awaited, Holder, Seen
from ...wording.printable import quoted
from ..rule import rule

A_MINUTE = 60.0  # seconds: longer than anybody pauses between two tries
OUTSIDE = ("socket", "file", "other")  # a server or storage: it may only be slow
SLOW_KERNEL = "D"  # asleep in the kernel where not even SIGKILL wakes it: storage that does not answer


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for _, seen, stack in fetchers(case):
        awaits = _waits_for(case, seen)
        if awaits is None:
            continue
        one = culprit(case, seen, stack)
        answers = awaits.kind in OUTSIDE
        if one.seconds < (A_MINUTE if answers or any(map(_sleeps, awaits.holders)) else LONG):
            continue
        finding = found(
            one,
            f"{one.name} waits{one.spot} for {awaited(awaits)}{_for_sample(one)}, and nothing comes.",
            [state(one), calls(one), *_about(seen, awaits)],
            _remedy(one, awaits),
            case,
            Subject("command" if awaits.kind in ("pipe", "child") else awaits.kind, awaits.name),
        )
        yield msgspec.structs.replace(
            finding,
            symptom=(Symptom.WAITING if answers else Symptom.STUCK).value,
            certainty=(Certainty.CERTAIN if _has_no_writer(seen, awaits) else Certainty.LIKELY).value,
        )
        return


def _has_no_writer(seen: Seen, awaits: Awaited) -> bool:
    """The kernel does not even let it open the FIFO before a writer has it open."""
    return awaits.kind == "fifo" and seen.main_task.syscall in ("open", "openat")


def _sleeps(holder: Holder) -> bool:
    """The other side pauses by itself, perhaps before it tries again."""
    return "nanosleep" in holder.wait_channel


def _waits_for(case: Case, seen: Seen) -> Awaited | None:
    """What its main thread waits for, if that lies outside and nothing of it moves."""
    task = seen.main_task
    if in_futex(task) or asleep(task) or not idles(task, seen.looked) or task.state not in ("S", "D"):
        return None
    awaits = task.awaits
    if awaits is None:
        unknown = Awaited(kind="other", name=f"storage ({task.wait_channel})")
        return unknown if task.state == SLOW_KERNEL and not pages_in(seen, task) else None
    if awaits.kind == "terminal" or any(holder.moving for holder in awaits.holders):
        return None
    below = [one for one in case.processes or () if one.parent == seen.pid]
    return None if any(moves(one) for one in below) or pages_in(seen, task) else awaits


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
    tried = [f"timeout 10 head -c 1 {quoted(awaits.name)} | wc -c"] if awaits.kind == "file" else []
    return Remedy("See whether the storage answers, outside of the training, and read with a time limit.", tried)
