"""The loader would need more memory than there is: a worker, or the whole run, would be killed.

## What it looks at
The prediction of `unstuck budget`: some samples, a batch of them and one worker were measured, or given as numbers,
and multiplied by workers, prefetch, batch size and ranks. Against it the memory that is available on this machine,
left in its cgroup, or asked for with --memory. Also samples that already took too much while they were measured.

## Why it happens
Finished batches wait for the training: workers × prefetch_factor of them, whatever the training needs. On top of that
every worker holds the samples of the batch it makes, what decoding takes, its own shuffle buffer, and in time a copy
of all Python objects of the dataset. Each of these grows with the workers, and all of it with the ranks of a node.

## What to do
Change what the largest term is made of. Waiting batches: prefetch_factor=1, fewer workers, smaller types. A shuffle
buffer: fewer elements, or shuffle before the files are read. Copies of the dataset: arrays instead of lists. The remedy
names settings that would do, calculated with the same numbers.

## How sure it is
For real loaders the prediction was measured to be about a fifth off at the most, mostly too high; it speaks when it is
above what there is. A loader that never runs ahead, because training is faster than loading, needs less: where it would
fit without batches that wait, it says so and is only possible. The model itself is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import FAIL, IMPOSSIBLE, Budget, Rung, Term, Trial
from ...wording.text import many, size
from ..rule import rule

WHOSE = {
    "machine": "are available on this machine",
    "cgroup": "are left in this cgroup",
    "--memory": "may be used (--memory)",
}
SHOWN = 4  # terms
QUEUED = ("waiting", "waiting, no tensors")  # terms that a loop which always waits for data does not see


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
    largest = budget.largest()
    most = f", {size(largest.size)} of it for {_named(largest.name)}" if largest is not None else ""
    ranks = f" and {many(budget.ranks, 'rank')} on this node" if budget.ranks > 1 else ""
    each = " in each rank" if budget.ranks > 1 else ""
    return case.finding(
        cause=f"With {many(budget.workers, 'worker')}{ranks} this loader would need {size(budget.node)}{most}{each}; "
        f"{size(budget.memory)} {WHOSE.get(budget.memory_of, 'may be used')}: it would be killed{_when(budget)}.",
        seen=[
            *(f"{one.name}: {one.how} = {size(one.size)}" for one in _largest(budget)),
            f"all in all {size(budget.rank)} for a rank" + (f", {size(budget.node)} for the node" if ranks else ""),
            *budget.notes,
        ],
        remedy=_remedy(budget),
        where=trial.target.loader.created if trial.target is not None and trial.target.loader is not None else None,
        subject=Subject("loader", trial.target.name if trial.target is not None else "the loader"),
        certainty=Certainty.POSSIBLE.value if _when(budget) else "",
    )


def _when(budget: Budget) -> str:
    """Batches pile up only where the training takes longer than loading; without them it may fit."""
    return " once batches wait for the training" if _without_queue(budget) <= budget.memory else ""


def _without_queue(budget: Budget) -> int:
    return budget.node - budget.ranks * sum(one.size for one in budget.terms if one.name in QUEUED)


def _named(term: str) -> str:
    return {"waiting": "batches that wait", "in use": "the batch in use", "workers": "the workers themselves"}.get(
        term, term
    )


def _largest(budget: Budget) -> list[Term]:
    return sorted(budget.terms, key=lambda one: -one.size)[:SHOWN]


def _remedy(budget: Budget) -> Remedy:
    good = [one for one in budget.safer if one.grade != IMPOSSIBLE]
    told = [f"{one.setting}: {size(one.node)}, {one.grade}" for one in good]
    if told:
        return Remedy(f"Any of these fits: {'; '.join(told)}.")
    least = f" Even with {budget.safer[0].setting} it would be {size(budget.safer[0].node)}." if budget.safer else ""
    return Remedy(f"Make samples smaller (types, crops), or give it {size(budget.node / 0.7)} of memory.{least}")


def _measured(case: Case, trial: Trial, rung: Rung) -> Finding:
    name = trial.target.name if trial.target is not None else "the loader"
    return case.finding(
        cause=f"Loading a few samples of {name} already takes {size(rung.peak)} of memory: {rung.reason}.",
        seen=[f"{rung.title}: ended by unstuck after {rung.seconds:.1f} s, at {size(rung.peak)}"],
        remedy=Remedy(
            "Load one sample by hand and look for what it keeps: a whole file, a cache that is never emptied."
        ),
        subject=Subject("loader", name),
    )
