"""The training's output goes into a pipe that nobody reads: the pipe is full, and the next print waits for ever.

## What it looks at
A thread that stands in a write to a pipe while nothing is written, which of the process's descriptors that is, and who
holds the other end.

## Why it happens
A wrapper, a notebook or a graphical front end started the training with `stdout=PIPE` and waits for it to end instead
of reading. A pipe holds 64 KiB; the print that finds it full waits until somebody reads. In a terminal the same script
works.

## What to do
Read the pipe while the process runs (`communicate()`, a thread), or send the output to a file instead.

## How sure it is
Sure: the kernel shows the write and the pipe. Reading the pipe once lets the run go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import awaited, calls, culprit, found, state
from ...analysis.standstill import LONG, main_stack
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Awaited, Seen, Stack
from ..rule import Level, rule

STREAMS = {1: "its standard output", 2: "its standard error"}
WRITING = ("write", "writev")
LAUNCHING = ("popen_spawn_posix.py", "popen_forkserver.py")


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        awaits, stack = _full_pipe(seen), main_stack(case, seen.pid)
        if awaits is None or stack is None or _starts_a_child(stack):
            continue
        one = culprit(case, seen, stack)
        if one.seconds < LONG:
            continue
        stream = STREAMS.get(awaits.descriptor or 0, f"descriptor {awaits.descriptor}")
        readers = [f"`{holder.command}` (pid {holder.pid})" for holder in awaits.holders]
        reader = readers[0] if readers else "whoever holds the other end"
        yield found(
            one,
            f"{one.name} waits{one.spot} because {stream} is {awaited(awaits)}, which is full and which nobody reads.",
            [state(one), calls(one), f"{reader} holds the other end and read nothing meanwhile"],
            Remedy(
                f"Let {reader} read the output while the training runs (communicate(), or a thread that reads), or "
                "start the training with its output in a file. Reading once lets this run go on:",
                [f"timeout 5 cat /proc/{seen.pid}/fd/{awaits.descriptor} > /tmp/unread-output.txt"],
            ),
            case,
            Subject("pipe", stream),
        )
        return


def _starts_a_child(stack: Stack) -> bool:
    """multiprocessing sends it the dataset, and it will read as soon as it has imported everything."""
    return any(call.file.endswith(LAUNCHING) for call in stack.calls)


def _full_pipe(seen: Seen) -> Awaited | None:
    task = seen.main_task
    waits = task.syscall in WRITING or "pipe_write" in task.wait_channel
    if not waits or task.awaits is None or task.awaits.kind not in ("pipe", "fifo") or task.written:
        return None
    return task.awaits
