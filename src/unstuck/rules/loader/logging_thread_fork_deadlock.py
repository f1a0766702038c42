"""A forked worker waits for the lock of a log file's buffer, which a thread of its parent held at the fork.

## What it looks at
A forked worker whose main thread waits without limit, without using the processor, for the lock inside a buffered file
object, below a write or a flush of `logging`; and the parent's threads that log.

## Why it happens
`logging` makes its own locks new after a fork. The buffered file below has a lock of its own, in C, that nobody renews:
if a thread of the parent was writing at the moment of the fork, the child has that lock as held, for ever. It depends
on timing, so it comes and goes.

## What to do
Let no thread write to a buffered file that forked processes write to as well: log from the thread through a
`QueueHandler`, give the workers a handler of their own (in `worker_init_fn`), or write with `os.write` to a file opened
with `O_APPEND`. Or start the workers without `fork`.

## How sure it is
Sure that the worker waits for a lock below `logging` that no thread of its own can release. Which thread of the parent
held it is told by what that thread does now.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found, state
from ...analysis.standstill import forked_into_a_wait, is_buffer_lock, other_threads
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen, stack in forked_into_a_wait(case):
        if not is_buffer_lock(stack):
            continue
        one = culprit(case, seen, stack)
        threads = other_threads(case, seen)
        yield found(
            one,
            f"{one.name} waits{one.spot} for the lock of a log file's buffer. A thread of its parent was writing to it "
            "when the worker was forked, and does not exist in the worker.",
            [
                state(one),
                calls(one, 4),
                "no other thread of that process could release the lock",
                *([f"its parent (pid {seen.parent}) has other threads: {', '.join(threads)}"] if threads else ()),
            ],
            Remedy(
                f"Let {threads[0] if threads else 'the thread'} log through a logging.handlers.QueueHandler, or give "
                "the workers a handler of their own in worker_init_fn, or start them without fork: "
                "DataLoader(..., multiprocessing_context='spawn').",
            ),
            case,
        )
        return
