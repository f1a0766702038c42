"""One rank gets no data, so it never reaches the collective in which all the others wait.

## It means

The ranks that wait look stuck, but only wait. The cause is one worker of one rank: a file on storage that does not
answer, a lock that is never released, an endless loop. Nothing is printed: the waiting ranks fail with a timeout after
10 minutes (NCCL) or 30 (gloo), and their tracebacks point at backward.

## Fix

Fix what blocks the worker that is named; the other ranks go on by themselves. To turn the silence into an error that
names the worker, give the loader a timeout:

```python
# before
DataLoader(dataset, num_workers=4)

# after: RuntimeError on this rank after 5 minutes without a batch
DataLoader(dataset, num_workers=4, timeout=300)
```

And give what the worker waits for a limit of its own:

```python
requests.get(url, timeout=30)
subprocess.run(command, timeout=60)
```

## Check it yourself

```sh
pgrep -f train.py | xargs -n 1 py-spy dump --pid       # the rank that is in _try_get_data is the one
ps -o pid,ppid,stat,wchan:30,cmd --ppid PID_OF_THAT_RANK
py-spy dump --pid PID_OF_ITS_WORKER                    # the line in __getitem__
```

## Not this, if

- the rank ran out of data instead of waiting for it: [ddp-uneven-batches](ddp-uneven-batches.md)
- the run already ended with a timeout: [collective-timeout](collective-timeout.md)
- the rank is only slower, and the run makes progress: [straggler-rank](straggler-rank.md)
- there is only one process: [worker-blocked-io](worker-blocked-io.md),
  [worker-infinite-loop](worker-infinite-loop.md), [fork-inherited-lock](fork-inherited-lock.md)

## How sure

Judged from which ranks wait in a collective, by their stacks, and which one waits for a batch or loads a sample itself;
then from its worker: the line it is at, the system call, the file, lock or command it waits for, whether anything of it
moves. Sure that this rank's worker holds up all ranks, and where. What is said of the worker is what the rules for a
single process say of it, and as sure as they are.

## Seen in

- https://github.com/pytorch/pytorch/issues/87995: rank 0 of 32 hangs in its data loader, all others in all_reduce
- https://github.com/OFA-Sys/OFA/issues/271: watchdog timeouts after hours, at random epochs
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.ranks import Stand, told, waiting
from ...analysis.standstill import fetchers
from ...evidence.finding import Certainty, Finding, Symptom
from ...evidence.live import Seen
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
    cause = re.sub(rf" \(pid \d+\)| of rank {main.rank}\b", "", found.cause)
    return msgspec.structs.replace(
        found,
        cause=f"All ranks wait for rank {main.rank}: {cause}",
        seen=[*found.seen, *(text for text in told(waits) if text not in found.seen)],
        rank=main.rank,
    )
