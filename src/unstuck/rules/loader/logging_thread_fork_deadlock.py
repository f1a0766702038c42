"""A forked worker waits forever for a log file's lock, which a thread of its parent held at the fork.

## It means
`logging` renews its own locks in a forked child. The buffered file below the handler has one more lock, in C, that is
not renewed. If a thread of the parent was writing to the log at the moment of the fork, the child inherits that lock as
held, and the thread that would release it does not exist in the child. The first log line of the worker then blocks
forever. It depends on timing, so it comes and goes.

## Fix
Start the workers without `fork`: they inherit no lock. The dataset must be picklable, and the script needs an
`if __name__ == "__main__":` guard.
```python
loader = DataLoader(dataset, num_workers=4, multiprocessing_context="forkserver")
```
Or let only the main thread log: the background thread puts its lines into a queue, and the training loop logs them.

Or give each worker a handler of its own. Do not close the inherited handlers (`logging.basicConfig(force=True)` does):
closing flushes the file, which blocks on the same lock.
```python
inherited = []


def own_log(worker_id):
    inherited.extend(logging.root.handlers)  # keep them: they would be closed, and closing blocks
    logging.root.handlers = [logging.FileHandler(f"worker-{worker_id}.log")]


loader = DataLoader(dataset, num_workers=4, worker_init_fn=own_log)
```

## Check it yourself
The blocked worker is in `flush` or `write` below `logging`, asleep on a futex:
```sh
py-spy dump --pid "$WORKER_PID"
cat "/proc/$WORKER_PID/wchan"; echo
```
Which threads of the parent log:
```sh
py-spy dump --pid "$MAIN_PID" | grep -B 8 logging
```

## Not this, if
- the worker waits for another lock than that of a log file: [fork-inherited-lock](fork-inherited-lock.md)
- it waits inside OpenMP, BLAS or torch operations: [fork-after-openmp](fork-after-openmp.md)
- it waits for a file or a connection: [worker-blocked-io](worker-blocked-io.md)
- writing blocks because a pipe is full: [stdout-pipe-full](stdout-pipe-full.md)

## How sure
Judged from a forked worker whose main thread waits without a time limit and without using CPU time for the lock inside
a buffered file object, below a write or a flush of `logging`, and from the parent's threads. Certain that the worker
waits for a lock below `logging` that no thread of its own can release. Which thread of the parent held it is concluded
from what that thread does now.

## Seen in
- https://github.com/DataDog/dd-trace-py/pull/18900: forked children deadlock when they log, because another thread held
  the log handler's lock at the fork.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found, state
from ...analysis.standstill import forked_into_a_wait, is_buffer_lock, other_threads
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ..rule import rule

REMEDY = Remedy(
    "Start the workers without fork, so they inherit no lock (needs a picklable dataset and a __main__ guard)",
    code=['DataLoader(..., multiprocessing_context="forkserver")'],
)
OWN_HANDLER = Remedy(
    "Give each worker its own log file in worker_init_fn, without closing the inherited handlers",
    code=[
        "def own_log(worker_id):",
        "    inherited.extend(logging.root.handlers)  # inherited = [] above: closing them would block, too",
        '    logging.root.handlers = [logging.FileHandler(f"worker-{worker_id}.log")]',
    ],
)


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen, stack in forked_into_a_wait(case):
        if not is_buffer_lock(stack):
            continue
        one = culprit(case, seen, stack)
        threads = other_threads(case, seen)
        yield found(
            one,
            f"{one.name} is deadlocked: a thread held the log file's lock at the fork.",
            [
                state(one),
                calls(one, 4),
                "no other thread of this process could release the lock",
                *([f"threads of its parent (pid {seen.parent}): {', '.join(threads)}"] if threads else ()),
            ],
            REMEDY,
            case,
            alternatives=[_only_main(threads), OWN_HANDLER],
        )
        return


def _only_main(threads: list[str]) -> Remedy:
    name = f"thread {threads[0].partition(' (')[0]}" if len(threads) == 1 else "the other threads"
    return Remedy(f"Let only the main thread log: {name} can put lines into a queue that the training loop logs.")
