"""A forked process deadlocks on a lock that a thread of its parent held at the moment of the fork.

## It means
`fork` copies the memory of a process, but only the one thread that called it. A lock that another thread held at that
moment is copied as held, and the thread that would release it does not exist in the child. Nothing in the child can
ever release it. With `num_workers=0`, or with workers that are not forked, the same code works.

## Fix
Start the workers without fork (the default since Python 3.14). The dataset must be picklable, and the script needs an
`if __name__ == "__main__":` guard.
```python
loader = DataLoader(dataset, num_workers=4, multiprocessing_context="spawn")
```
Or start the thread after the workers, and keep the workers, so no later epoch forks next to it:
```python
loader = DataLoader(dataset, num_workers=4, persistent_workers=True)
batches = iter(loader)  # forks the workers
metrics.start()  # the thread
```
Or create the lock, and the client it belongs to, in each worker at first use:
```python
def client(self):
    if self._pid != os.getpid():
        self._client, self._pid = Client(), os.getpid()
    return self._client
```

## Check it yourself
All blocked workers are asleep on a futex, at the same Python line:
```sh
for pid in $(pgrep -P "$MAIN_PID"); do py-spy dump --pid "$pid"; cat "/proc/$pid/wchan"; echo; done
```
Which other threads the parent has:
```sh
py-spy dump --pid "$MAIN_PID" | grep Thread
```
Python 3.12 and later warn at the fork: "This process (pid=…) is multi-threaded, use of fork() may lead to deadlocks in
the child".

## Not this, if
- the lock is that of a log file: [logging-thread-fork-deadlock](logging-thread-fork-deadlock.md)
- the worker waits inside OpenMP: [fork-after-openmp](fork-after-openmp.md)
- it waits for a file, a pipe or a connection: [worker-blocked-io](worker-blocked-io.md)
- it computes endlessly: [worker-infinite-loop](worker-infinite-loop.md)
- a thread of the same process holds Python's own lock: [gil-held](gil-held.md)

## How sure
Judged from a forked worker whose main thread waits, without a time limit and without using CPU time, for a lock of
Python's own; from whether any other thread of that process could release it; from the threads that its parent has, or
had at the fork; and from whether several workers wait for the lock at the same address. Certain that the process waits
for a lock that none of its own threads can release. That the lock was held at the fork follows from the parent's other
threads, or from several workers waiting at one and the same address.

## Seen in
- https://github.com/pytorch/pytorch/issues/75147: a worker blocked on a mutex that a thread of its parent held.
- https://github.com/pytorch/pytorch/issues/130610: workers forked while the pin-memory thread held a lock of libc;
  spawn solved it.
- https://github.com/czbiohub-sf/iohub/issues/416: threads of a codec library, and workers that deadlock after fork.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found, state
from ...analysis.standstill import forked_into_a_wait, is_buffer_lock, is_python_lock, other_threads, same_lock
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many
from ..rule import rule

TEXTS = ("is multi-threaded, use of fork() may lead to deadlocks in the child",)  # a warning of Python 3.12 and later


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
        told = [state(one), calls(one)]
        told += [f"its parent (pid {seen.parent}) has other threads: {', '.join(threads)}"] if threads else []
        told += [f"also waiting for the lock at the same address: {many(len(others), 'worker')}"] if others else []
        told += ["no other thread of that process could release the lock"]
        fix, *ways = _ways(threads)
        yield found(
            one,
            f"{one.name} is deadlocked on a lock that a thread of its parent held at the fork.",
            told,
            fix,
            case,
            alternatives=ways,
        )
        return


def _ways(threads: list[str]) -> list[Remedy]:
    """The fix, and other ways out."""
    thread = f"thread {threads[0]}" if threads else "the parent's thread"
    return [
        Remedy(
            "Start the workers without fork (needs a picklable dataset and a __main__ guard)",
            code=['DataLoader(..., multiprocessing_context="spawn")'],
        ),
        Remedy(
            f"Start {thread} only after iter(loader), and keep the workers",
            code=["DataLoader(..., persistent_workers=True)"],
        ),
        Remedy("Create the lock in each worker, in worker_init_fn or at first use."),
    ]
