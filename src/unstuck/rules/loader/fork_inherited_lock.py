"""A forked process waits for a lock that was held when it was forked, by a thread that does not exist in it.

## What it looks at
A forked worker whose main thread waits, without a time limit and without using the processor, for a lock of Python's
own; whether any other thread of that process could let go of it; the threads its parent has, or had at the fork; and
whether several workers wait for the lock at the same address.

## Why it happens
`fork` copies the memory of a process but only the one thread that called it. A lock that another thread held at that
moment is copied as held, and the thread that would let go of it is not there. Nothing in the child can ever release
it. With `num_workers=0`, or with workers that are started anew (`spawn`), the same code works.

## What to do
Start the workers without `fork` (`multiprocessing_context="spawn"`, or `"forkserver"`), or start the thread after the
loader's iterator is made, or make the lock (and the client it belongs to) in the worker, in `worker_init_fn` or at
first use per process.

## How sure it is
Sure that the process waits for a lock that none of its own threads can release. That the lock was held at the fork
follows from the parent's other threads, or from several workers waiting at one and the same address.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found, state
from ...analysis.standstill import forked_into_a_wait, is_buffer_lock, is_python_lock, other_threads, same_lock
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    waiting = [
        (seen, stack) for seen, stack in forked_into_a_wait(case) if is_python_lock(stack) and not is_buffer_lock(stack)
    ]
    for seen, stack in waiting:
        one = culprit(case, seen, stack)
        threads = other_threads(case, seen)
        others = same_lock(seen, [worker for worker, _ in waiting])
        if not threads and not others:
            continue
        told = [state(one), calls(one), "no other thread of that process could release the lock"]
        told += [f"its parent (pid {seen.parent}) has other threads: {', '.join(threads)}"] if threads else []
        told += [f"also waiting for the lock at the same address: {many(len(others), 'worker')}"] if others else []
        yield found(
            one,
            f"{one.name} waits{one.spot} for a lock that another thread of its parent held when it was forked. "
            "That thread does not exist in the worker, so nobody will ever release it.",
            told,
            Remedy(
                "Start the workers without fork: DataLoader(..., multiprocessing_context='spawn'). Or start "
                f"{threads[0] if threads else 'the thread'} only after the loader's iterator is made, or create the "
                "lock in the worker (worker_init_fn).",
            ),
            case,
        )
        return
