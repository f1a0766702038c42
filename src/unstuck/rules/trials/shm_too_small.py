"""/dev/shm is too small for the batches that would queue up in it: a worker would crash.

## It means

Every tensor that a worker sends to the main process lies in /dev/shm until it is used. Docker and Kubernetes give a
container 64 MiB of it by default; a machine has half its memory. When it is full, a worker crashes: with "unable to
allocate shared memory", or by a bus error (SIGBUS).

## Fix

Enlarge it, or share the host's:

```sh
docker run --shm-size=8g IMAGE  # or --ipc=host
```

In Kubernetes, mount a volume of memory there:

```yaml
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
volumeMounts: [{name: shm, mountPath: /dev/shm}]
```

Without a container: `sudo mount -o remount,size=8G /dev/shm`. Or queue fewer and smaller batches:

```python
loader = DataLoader(dataset, batch_size=64, num_workers=4, prefetch_factor=2)  # before: 8 batches and one in use
loader = DataLoader(dataset, batch_size=64, num_workers=2, prefetch_factor=1)  # after: 2
```

The `file_system` sharing strategy does not help: it uses the same /dev/shm.

## Check it yourself

```sh
df -h /dev/shm
```
```python
batch = next(iter(loader))
size = sum(value.nbytes for value in batch if hasattr(value, "nbytes"))  # a batch is a tuple or a list here
print(size * (loader.num_workers * loader.prefetch_factor + 1) / 2**20, "MiB")
```

## Not this, if

- it happened already, in a run: [shm-exhausted](shm-exhausted.md)
- it is full before the training starts: [shm-full-at-start](shm-full-at-start.md)
- all memory is too small, not just /dev/shm: [memory-budget-exceeded](memory-budget-exceeded.md)
- a bus error comes from a file that was truncated while mapped: [worker-segfault](worker-segfault.md)

## How sure

It is judged from the prediction of `unstuck budget`: tensors that workers send, workers × prefetch_factor batches and
the one in use, of all ranks on this node; against it what is free in /dev/shm here, or would be (--shm). It speaks when
the prediction is above what is free. How large the tensors are was measured; that all of them wait at once happens
whenever training is slower than loading for a while, at a checkpoint or a validation.

## Seen in

- https://github.com/pytorch/pytorch/issues/5040: "killed by signal: Bus error" in containers, and why the message was
  improved
- https://github.com/pytorch/pytorch/issues/16979: the same on Kubernetes
- https://github.com/bytedance/Protenix/issues/2: one GPU, one worker, and Docker's default
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import IMPOSSIBLE, SAFE, Budget, Term, Trial
from ...wording.text import many, size
from ..rule import rule

TEXTS = (
    "unable to allocate shared memory(shm) for file",
    "is killed by signal: Bus error.",
    "It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
)

DOCKER_DEFAULT = 64 << 20
SPARE = 1.5  # times what is predicted
SENSIBLE = 64  # GiB: rather queue fewer batches than ask for more


@rule(explains=Symptom.CRASHED, certainty=Certainty.LIKELY, needs=("trial",), outranks=("shm-exhausted",))
def check(case: Case) -> Iterator[Finding]:
    budget = case.trial.budget if case.trial is not None else None
    if budget is None or budget.shm_grade != IMPOSSIBLE or budget.shm_free is None:
        return
    waiting = budget.workers * budget.prefetch * budget.ranks
    remedy, *alternatives = _options(budget, _on_host(case.trial, budget))
    yield case.finding(
        cause=f"Workers would crash: queued batches need {size(budget.shm)} of /dev/shm, "
        f"{size(budget.shm_free)} {_are(budget)}.",
        seen=[
            f"{many(waiting, 'batch')} can be queued at once, and one per rank is in use",
            *([f"/dev/shm has {size(budget.shm_size)}"] if budget.shm_size and budget.shm_of == "machine" else []),
            *(f"{_named(term)}: {term.how} = {size(term.size)}" for term in budget.terms if term.shm),
            *([f"{many(budget.ranks, 'rank')} on this node share one /dev/shm"] if budget.ranks > 1 else []),
            *(["64 MiB is what Docker and Kubernetes give a container by default"] if _is_dockers(budget) else []),
            "the file_system sharing strategy does not help: it uses the same /dev/shm",
        ],
        remedy=remedy,
        alternatives=alternatives,
        subject=Subject("filesystem", "/dev/shm"),
        symptom=Symptom.WRONG.value,  # nothing has crashed yet
    )


def _named(term: Term) -> str:
    return {"waiting": "queued"}.get(term.name, term.name)


def _are(budget: Budget) -> str:
    return "is free" if budget.shm_of == "machine" else f"would be there ({budget.shm_of})"


def _is_dockers(budget: Budget) -> bool:
    return (budget.shm_size or 0) == DOCKER_DEFAULT


def _on_host(trial: Trial | None, budget: Budget) -> bool:
    """It is the /dev/shm of this machine, and nothing looks like a container."""
    settings = trial.settings if trial is not None else None
    return budget.shm_of == "machine" and settings is not None and not settings.container


def _options(budget: Budget, on_host: bool) -> list[Remedy]:
    wanted = max(-(-int(budget.shm * SPARE) >> 30), 1)
    less = [
        Remedy(f"Queue less: {size(other.shm)} is needed then", code=[other.setting])
        for other in budget.safer
        if other.shm_grade in ("", SAFE)
    ][:2]
    if wanted > SENSIBLE:
        return less or [Remedy("Queue less: smaller samples, or smaller types (uint8, float16)")]
    more = Remedy(
        f"Give the container {wanted} GiB: docker run --shm-size={wanted}g, or --ipc=host; "
        "in Kubernetes an emptyDir of medium Memory at /dev/shm"
    )
    command = [f"sudo mount -o remount,size={wanted}G /dev/shm"]
    if on_host:
        return [Remedy("Enlarge it: it may hold as much as there is memory to spare", command), *less]
    return [more, *less, Remedy("Without a container, enlarge it on this machine", command)]
