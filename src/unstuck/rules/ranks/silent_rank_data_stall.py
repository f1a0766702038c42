"""One rank waits for data that does not come, so it never reaches the collective in which all the others wait.

## What it looks at
Which ranks wait in a collective, by their stacks, and which one waits for a batch or loads a sample itself. Then its
worker: the line it stands at, the system call, the file, lock or command it waits for, whether anything of it moves.

## Why it happens
The ranks that wait look stuck, but only wait. The cause is one worker of one rank: a file on storage that does not
answer, a lock nobody gives back, a loop without an end.

## What to do
What helps the worker that is named; the other ranks go on by themselves. A time limit where the worker waits turns the
silence into an error that names the sample.

## How sure it is
Sure that this rank's worker holds all ranks up, and where. What is said of the worker is what the rules for a single
process say of it, and as sure as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.ranks import Stand, told, waiting
from ...analysis.standstill import fetchers
from ...evidence.finding import Certainty, Finding, Symptom
from ...evidence.live import Seen
from ...wording.text import who
from ..host import hf_filelock, stuck_in_user_code
from ..loader import (
    fork_after_openmp,
    fork_inherited_lock,
    logging_thread_fork_deadlock,
    worker_blocked_io,
    worker_infinite_loop,
)
from ..rule import Rule, rule

# What may hold a worker up, the more precise first.
HOLDS: tuple[Rule, ...] = (
    fork_inherited_lock.check,
    logging_thread_fork_deadlock.check,
    fork_after_openmp.check,
    hf_filelock.check,
    worker_blocked_io.check,
    worker_infinite_loop.check,
    stuck_in_user_code.check,
)


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes", "stacks"),
    outranks=(
        "fork-inherited-lock",
        "logging-thread-fork-deadlock",
        "fork-after-openmp",
        "hf-filelock",
        "worker-blocked-io",
        "worker-infinite-loop",
    ),
)
def check(case: Case) -> Iterator[Finding]:
    waits = waiting(case)
    loading = {worker.pid: main for main, worker, _ in fetchers(case) if main.rank is not None}
    if not waits or not loading:
        return
    for held in HOLDS:
        for found in held.check(case):
            if found.pid in loading:
                sure = msgspec.structs.replace(found, certainty=found.certainty or held.certainty.value)
                yield _of_rank(sure, loading[found.pid], waits)
                return


def _of_rank(found: Finding, main: Seen, waits: list[Stand]) -> Finding:
    """What is known of the worker, told as the story of its rank."""
    itself = main.pid == found.pid
    begins = f"{who(main).capitalize()} {'loads a sample and does not get on' if itself else 'waits for its data'}"
    others = "; ".join(told(waits))
    return msgspec.structs.replace(
        found,
        cause=f"{begins}, while {others}. {found.cause}",
        rank=main.rank,
    )
