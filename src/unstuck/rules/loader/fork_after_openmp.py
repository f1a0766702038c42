"""A forked process waits in OpenMP for threads that its parent had and it has not.

## What it looks at
A forked worker whose main thread waits without using the processor, inside the OpenMP library (libgomp, libiomp,
libomp) below a call of torch, numpy or another library.

## Why it happens
The parent has run something in parallel before it forked, so OpenMP believes that its threads are there. In the child
they are not: the next parallel operation waits for them for ever. torch sets its workers to one thread, which keeps
them clear of it; `torch.set_num_threads` in a worker, or a plain `multiprocessing.Process`, brings it back.

## What to do
Keep one thread in the workers (remove `torch.set_num_threads` there, or set `OMP_NUM_THREADS=1` before the start), or
start the workers without `fork` (`multiprocessing_context="spawn"`).

## How sure it is
Sure: a process that computes in OpenMP uses the processor, and this one uses none.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found, state
from ...analysis.standstill import LONG, idles, in_futex, in_thread_pool, main_stack, native_top, standing
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import Stack
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
        yield found(
            one,
            f"{one.name} waits{one.spot} in OpenMP for threads that exist only in its parent: it was forked after the "
            "parent had computed in parallel.",
            [
                state(one),
                calls(one),
                f"below that it is in {pool.file.rpartition('/')[2]}{f', called by {operation}' if operation else ''}",
                f"the process has {len(seen.tasks)} threads, its parent started it by fork",
            ],
            Remedy(
                "Keep one thread in the workers: remove torch.set_num_threads from the dataset and worker_init_fn, or "
                "set OMP_NUM_THREADS=1. If workers need more threads, start them without fork: "
                "DataLoader(..., multiprocessing_context='spawn').",
            ),
            case,
        )
        return


def _operation(stack: Stack) -> str:
    """The operation by its name in torch's own table, if it is there."""
    for frame in native_top(stack):
        if "at::_ops::" in frame.function:
            return "torch." + frame.function.partition("at::_ops::")[2].partition("::")[0]
    return ""
