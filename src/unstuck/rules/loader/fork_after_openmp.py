"""A forked process deadlocks in OpenMP: it waits for threads of its parent that fork did not copy.

## It means
The parent computed something in parallel before it forked, so OpenMP believes that its threads exist. In the child they
do not: the next parallel operation waits for them forever. torch sets its workers to one thread, which avoids that;
`torch.set_num_threads` in a worker undoes that, and a plain `multiprocessing.Process` has no such limit.

## Fix
Keep one thread in the workers:
```python
# before
def worker_init_fn(worker_id):
    torch.set_num_threads(4)


# after: torch's own default in workers
loader = DataLoader(dataset, num_workers=4)
```
In a process that you start yourself by fork, set it before anything is computed:
```python
def job(rows):
    torch.set_num_threads(1)
    return embed(rows)
```
Or start the workers without fork. The dataset must be picklable, and the script needs an
`if __name__ == "__main__":` guard.
```python
loader = DataLoader(dataset, num_workers=4, multiprocessing_context="spawn")
```

## Check it yourself
The blocked process is asleep on a futex, with libgomp or libiomp in its native stack:
```sh
py-spy dump --native --pid "$WORKER_PID"
cat "/proc/$WORKER_PID/wchan"; echo
```
With one thread everywhere the hang disappears:
```sh
OMP_NUM_THREADS=1 python train.py
```

## Not this, if
- the worker waits for a lock of Python: [fork-inherited-lock](fork-inherited-lock.md)
- it waits for the lock of a log file: [logging-thread-fork-deadlock](logging-thread-fork-deadlock.md)
- `map(num_proc=...)` of datasets hangs so: [hf-map-num-proc-hang](hf-map-num-proc-hang.md)
- the worker uses CPU time and does not hang: [cpu-oversubscription](cpu-oversubscription.md)
- CUDA raises in the worker: [cuda-in-forked-worker](cuda-in-forked-worker.md)

## How sure
Judged from a forked process whose main thread waits without using CPU time, inside the OpenMP library (libgomp,
libiomp, libomp) below a call of torch, numpy or another library. Certain: a process that computes in OpenMP uses CPU
time, and this one uses none.

## Seen in
- https://github.com/pytorch/pytorch/issues/45198: workers hung in OpenCV built with GNU OpenMP; `OMP_NUM_THREADS=1` or
  spawn avoided it.
- https://github.com/pytorch/pytorch/issues/42444: `torch.randperm` of more than 32,768 numbers in the parent, then in a
  forked process, which hung.
- https://github.com/pytorch/pytorch/issues/17199: `einsum` in the parent, then in a forked process that never ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import Culprit, calls, culprit, found, state
from ...analysis.standstill import LONG, idles, in_futex, in_thread_pool, main_stack, native_top, standing
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import Seen, Stack
from ...wording.text import many
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack = main_stack(case, seen.pid)
        if stack is None or not seen.forked or not in_futex(seen.main_task) or not idles(seen.main_task, seen.looked):
            continue
        pool = in_thread_pool(stack)
        if pool is None or standing(case, seen, stack) < LONG:
            continue
        one = culprit(case, seen, stack)
        operation = _operation(stack)
        fix, *others = _ways(one, seen)
        yield found(
            one,
            f"{one.name} is deadlocked in OpenMP: its parent's OpenMP threads were not copied by fork.",
            [
                state(one),
                calls(one),
                f"blocked in {pool.file.rpartition('/')[2]}{f', called by {operation}' if operation else ''}",
                f"started by fork; it has {many(len(seen.tasks), 'thread')}",
            ],
            fix,
            case,
            alternatives=others,
        )
        return


def _ways(one: Culprit, seen: Seen) -> list[Remedy]:
    """The fix, and other ways out."""
    if seen.role == "worker":
        return [
            Remedy("Keep one thread in the workers: remove torch.set_num_threads from the dataset and worker_init_fn."),
            Remedy(
                "Start the workers without fork (needs a picklable dataset and a __main__ guard)",
                code=['DataLoader(..., multiprocessing_context="spawn")'],
            ),
        ]
    function = one.where.function.rpartition(".")[2] if one.where is not None else ""
    return [
        Remedy(
            f"Compute with one thread in the child, set first{f' in {function}' if function else ''}",
            code=["torch.set_num_threads(1)"],
        ),
        Remedy("Start the child processes without fork (spawn or forkserver)."),
    ]


def _operation(stack: Stack) -> str:
    """The operation by its name in torch's own table, if it is there."""
    for frame in native_top(stack):
        if "at::_ops::" in frame.function:
            return "torch." + frame.function.partition("at::_ops::")[2].partition("::")[0]
    return ""
