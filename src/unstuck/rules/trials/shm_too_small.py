"""/dev/shm is too small for the batches that would wait in it.

## What it looks at
The prediction of `unstuck budget`: tensors that workers hand over, workers × prefetch_factor batches and the one in
use, of all ranks on this node. Against it what is free in /dev/shm here, or would be (--shm).

## Why it happens
Every tensor that goes from a worker to the main process lies in /dev/shm until it is used. Docker gives a container
64 MiB of it unless told otherwise; a machine has half its memory. When it is full, a worker dies: with "unable to
allocate shared memory", or by SIGBUS.

## What to do
Enlarge it: `docker run --shm-size=8g` or `--ipc=host`, in Kubernetes an emptyDir of medium Memory on /dev/shm. Or have
less waiting: prefetch_factor=1, fewer workers, smaller batches or types. The `file_system` sharing strategy does not
help: it uses the same /dev/shm.

## How sure it is
It speaks when the prediction is above what is free. How large the tensors are was measured; that all of them wait at
once happens whenever training is slower than loading for a while, at a checkpoint or a validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import IMPOSSIBLE, SAFE, Budget
from ...wording.text import many, size
from ..rule import rule

DOCKER_DEFAULT = 64 << 20
SPARE = 1.5  # times what is predicted: so much of it is to be asked for


@rule(explains=Symptom.CRASHED, certainty=Certainty.LIKELY, needs=("trial",), outranks=("shm-exhausted",))
def check(case: Case) -> Iterator[Finding]:
    budget = case.trial.budget if case.trial is not None else None
    if budget is None or budget.shm_grade != IMPOSSIBLE or budget.shm_free is None:
        return
    waiting = budget.workers * budget.prefetch * budget.ranks
    yield case.finding(
        cause=f"Up to {many(waiting, 'batch')} would wait in /dev/shm, {size(budget.shm)} with those in use; "
        f"{size(budget.shm_free)} of it {_are(budget)}: a worker would die.",
        seen=[
            *(f"{one.name}: {one.how} = {size(one.size)}" for one in budget.terms if one.shm),
            *([f"{many(budget.ranks, 'rank')} on this node share one /dev/shm"] if budget.ranks > 1 else []),
            *(["64 MiB is what Docker gives a container that does not ask for more"] if _is_dockers(budget) else []),
        ],
        remedy=_remedy(budget),
        subject=Subject("filesystem", "/dev/shm"),
    )


def _are(budget: Budget) -> str:
    if budget.shm_of == "machine":
        return f"are free, of {size(budget.shm_size or 0)}"
    return f"would be there ({budget.shm_of})"


def _is_dockers(budget: Budget) -> bool:
    return (budget.shm_size or 0) == DOCKER_DEFAULT


def _remedy(budget: Budget) -> Remedy:
    wanted = max(-(-int(budget.shm * SPARE) >> 30), 1)
    less = [one for one in budget.safer if one.shm_grade in ("", SAFE)]
    text = f"Give the container {wanted} GiB of shared memory, or the host's by --ipc=host"
    text += f"; or have fewer batches wait in it, with {less[0].setting} {size(less[0].shm)}" if less else ""
    text += ". The file_system sharing strategy does not help: it uses the same /dev/shm."
    return Remedy(text, [f"docker run --shm-size={wanted}g …", f"sudo mount -o remount,size={wanted}G /dev/shm"])
