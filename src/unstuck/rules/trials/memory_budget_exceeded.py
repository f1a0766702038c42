"""The loader needs more memory than there is: a worker, or the whole run, would be killed.

## It means

Finished batches queue up for the training: workers × prefetch_factor of them, whatever the training needs. Also, every
worker holds the samples of the batch it is making, what decoding takes, its own shuffle buffer, and in time a copy of
all Python objects of the dataset. Each of these grows with the workers, and all of it with the ranks of a node.

## Fix

Change what the largest term is made of. If it is queued batches, use fewer workers or a smaller prefetch_factor:

```python
loader = DataLoader(dataset, batch_size=32, num_workers=32, prefetch_factor=4)  # before: 128 batches queued
loader = DataLoader(dataset, batch_size=32, num_workers=6, prefetch_factor=1)  # after: 6
```

Or smaller types, converted after loading:

```python
return torch.from_numpy(image)  # uint8: a quarter of float32
images = images.to("cuda").float().div_(255)  # in the training loop
```

If it is a shuffle buffer, hold fewer elements, or shuffle before files are read. If it is copies of the dataset, keep
arrays instead of lists and dicts of Python objects:

```python
self.labels = numpy.array(labels)  # not a list of a million ints: workers copy it by reading
```

## Check it yourself

Multiply what one batch takes; then watch the memory of the whole group of processes, not of the main process alone:

```python
batch = next(iter(loader))
size = sum(value.nbytes for value in batch if hasattr(value, "nbytes"))  # a batch is a tuple or a list here
print(size * loader.num_workers * loader.prefetch_factor / 2**30, "GiB queued")
```
```sh
cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current
```

## Not this, if

- only /dev/shm is too small: [shm-too-small](shm-too-small.md)
- a run was killed already: [worker-oom-killed](worker-oom-killed.md), [main-oom-killed](main-oom-killed.md),
  [container-oom-killed](container-oom-killed.md)
- memory grows with time in a running training: [cow-refcount-growth](cow-refcount-growth.md)
- it is the GPU's memory: [cuda-out-of-memory](cuda-out-of-memory.md)

## How sure

It is judged from the prediction of `unstuck budget`: some samples, a batch of them and one worker were measured, or
given as numbers, and multiplied by workers, prefetch_factor, batch size and ranks; against it the memory that is
available on this machine, left in its cgroup, or given with --memory. Also from samples that already took too much
while they were measured. For real loaders the prediction was measured to be at most about a fifth off, mostly too high;
it speaks when it is above what there is. A loader that never runs ahead, because training is faster than loading, needs
less: where it would fit without queued batches, the finding says so and is only *possible*. The model itself is not
counted.

## Seen in

- https://github.com/pytorch/pytorch/issues/5902: three times the memory with num_workers > 0
- https://github.com/pytorch/pytorch/issues/25643: why only two batches per worker are prefetched by default
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import FAIL, IMPOSSIBLE, SAFE, Alternative, Budget, Rung, Term, Trial
from ...wording.text import many, size
from ..rule import rule

TEXTS = ("is killed by signal: Killed.", "Cannot allocate memory")

WHOSE = {
    "machine": "is available here",
    "cgroup": "is left in this cgroup",
    "--memory": "is allowed (--memory)",
}
SHOWN = 4  # terms
OPTIONS = 3  # settings that fit
COMFORTABLE = 0.7  # of the memory that there is: so much may be used
MORE_MEMORY = 4  # times: advice to get more memory than that helps nobody
QUEUED = ("waiting", "waiting, no tensors")  # terms that do not arise in a loop that always waits for data
NAMES = {
    "waiting": "queued batches",
    "waiting, no tensors": "queued arrays, strings and numbers",
    "in use": "the batch in use",
    "being made": "batches being made",
    "workers": "the workers themselves",
    "allocator": "allocator overhead",
}


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.LIKELY,
    needs=("trial",),
    outranks=("worker-oom-killed", "main-oom-killed", "container-oom-killed"),
)
def check(case: Case) -> Iterator[Finding]:
    trial = case.trial
    if trial is None:
        return
    if trial.budget is not None and trial.budget.grade == IMPOSSIBLE:
        yield _finding(case, trial, trial.budget)
        return
    too_large = [one for one in trial.rungs if one.status == FAIL and one.ended == "memory"]
    if trial.command == "budget" and too_large:
        yield _measured(case, trial, too_large[0])


def _finding(case: Case, trial: Trial, budget: Budget) -> Finding:
    ranks = f", {size(budget.node)} for {many(budget.ranks, 'rank')} on this node" if budget.ranks > 1 else ""
    remedy, *alternatives = _options(budget)
    return case.finding(
        cause=f"This loader would be OOM-killed{_when(budget)}: it needs {size(budget.node)}, and "
        f"{size(budget.memory)} {WHOSE.get(budget.memory_of, 'is allowed')}.",
        seen=[
            *(f"{NAMES.get(term.name, term.name)}: {term.how} = {size(term.size)}" for term in _largest(budget)),
            f"in all: {size(budget.rank)} for a rank{ranks}",
            *_least(budget),
            *budget.notes,
        ],
        remedy=remedy,
        alternatives=alternatives,
        where=trial.target.loader.created if trial.target is not None and trial.target.loader is not None else None,
        subject=Subject("loader", trial.target.name if trial.target is not None else "the loader"),
        symptom=Symptom.WRONG.value,  # nothing has crashed yet
        certainty=Certainty.POSSIBLE.value if _when(budget) else "",
    )


def _when(budget: Budget) -> str:
    """Batches queue up only where the training takes longer than loading; without them it may fit."""
    return " once batches queue up" if _without_queue(budget) <= budget.memory else ""


def _without_queue(budget: Budget) -> int:
    return budget.node - budget.ranks * sum(one.size for one in budget.terms if one.name in QUEUED)


def _largest(budget: Budget) -> list[Term]:
    return sorted(budget.terms, key=lambda term: -term.size)[:SHOWN]


def _fitting(budget: Budget) -> list[Alternative]:
    return [other for other in budget.safer if other.grade != IMPOSSIBLE]


def _least(budget: Budget) -> list[str]:
    """Where no setting fits: what the smallest would need."""
    if not budget.safer or _fitting(budget):
        return []
    return [f"even with {budget.safer[0].setting} it would need {size(budget.safer[0].node)}"]


def _options(budget: Budget) -> list[Remedy]:
    fits = [
        Remedy(f"Use smaller settings: {size(other.node)} is needed then{_tight(other)}", code=[other.setting])
        for other in _fitting(budget)[:OPTIONS]
    ]
    if fits:
        return fits
    smaller = Remedy("Make samples smaller: smaller types (uint8, float16), smaller crops")
    wanted = budget.node / COMFORTABLE
    if wanted > MORE_MEMORY * budget.memory:
        return [smaller]
    return [smaller, Remedy(f"Run it where {size(wanted)} of memory is available")]


def _tight(other: Alternative) -> str:
    return "" if other.grade == SAFE else f" ({other.grade})"


def _measured(case: Case, trial: Trial, rung: Rung) -> Finding:
    name = trial.target.name if trial.target is not None else "the loader"
    return case.finding(
        cause=f"Loading a few samples already takes {size(rung.peak)} of memory, more than is allowed.",
        seen=[f"{rung.title}: {rung.reason}; it ran for {rung.seconds:.1f} s"],
        remedy=Remedy("Load one sample alone, and find what it keeps: a whole file, a cache that is never emptied"),
        subject=Subject("loader", name),
        symptom=Symptom.WRONG.value,  # nothing has crashed yet
    )
