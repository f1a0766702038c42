"""`next(iter(loader))` in the loop starts the loader anew for every batch.

## What it looks at
How many iterators of a loader were made, how many batches each gave before it was thrown away, and how many optimizer
steps came of each: an iterator for every step, or for every batch that is trained on, though the loader has more. And
what share of the time went into starting iterators and waiting for their first batch.

## Why it happens
Every `iter(loader)` starts all workers, fills their queues, and throws everything away when the next one replaces it.
The batch that comes out is right, so nothing looks wrong but the clock. It also draws each batch from a fresh shuffle.
A prefetcher hides it: one that is made again in every step takes two batches each time, one of them for nothing.

## What to do
Make the iterator once and call `next` on it, starting it again on StopIteration; or loop over the loader.
`persistent_workers=True` alone does not help much: the prefetched batches are still thrown away.

## How sure it is
Certain of the counts. It speaks only when that start-up takes a fifth of the time or more; a single
`next(iter(loader))` to look at a batch, or a loader of one batch, is healthy. So is a validation of a few batches:
where an iterator gives more than one batch, it has to be the loader that the optimizer steps come of.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.passes import phases_of
from ...evidence.epochs import VALIDATION
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent
from ..rule import rule

OFTEN = 10  # iterators: fewer may be a look at the data, or a few short validations
SHARE = 0.2  # of the loop's time: below that it is bad style, not a slow run
ONE = 1.2  # for each, but for a few that are counted while they come
AHEAD = 1  # batch that a prefetcher has taken beside the one that is trained on
KEPT = 0.1  # of the iterators that may be gone through to their end


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for process in case.mains:
        for loader in process.loaders:
            if not _thrown_away(loader) or not _for_each_step(process, loader):
                continue
            spent, looped = loader.starts.total + loader.first_waits.total, _looped(process, loader)
            if spent < SHARE * looped:
                continue
            workers = many(loader.num_workers, "worker") if loader.num_workers else "the sampler"
            often = _one_each(loader) or _steps(process, loader) <= ONE
            yield case.finding(
                process,
                cause=f"Every {'step makes' if often else 'few steps make'} a new iterator of {loader.name}: "
                f"{_what(loader)} starts {workers} anew {_times(loader)}.",
                seen=[
                    f"{many(loader.starts.count, 'iterator')} for {_for(process, loader)}",
                    f"starting one took {duration(loader.starts.mean)}, its first batch another "
                    f"{duration(loader.first_waits.mean)}; {_rest(loader, looped)}",
                    f"that is {percent(spent / looped)} of the loop's time, {duration(spent)} so far",
                ],
                remedy=_remedy(loader),
                where=loader.created,
            )


def _each(loader: Loader) -> float:
    """Batches that an iterator gave."""
    return loader.batches / loader.starts.count


def _one_each(loader: Loader) -> bool:
    return _each(loader) <= ONE


def _thrown_away(loader: Loader) -> bool:
    """Iterators that were left with more batches to come than they gave. The first sixteen that ended are all known."""
    iterators = loader.starts.count
    if iterators < OFTEN or not loader.batches:
        return False
    left = loader.length is None or loader.length > max(2 * _each(loader) / ONE, 1)
    return left and len(loader.ended) <= KEPT * iterators


def _for_each_step(process: Process, loader: Loader) -> bool:
    """One batch of each, whatever for; or as much as one step takes, or one batch and those ahead, and steps of it."""
    if _one_each(loader):
        return True
    validates = any(one.kind == VALIDATION for one in phases_of(process, loader))
    others = sum(one.optimizer_steps for one in process.loaders if one.number != loader.number)
    trains = not validates and 2 * others < process.optimizer_steps
    return trains and (_steps(process, loader) <= ONE or _each(loader) <= ONE + AHEAD)


def _steps(process: Process, loader: Loader) -> float:
    """Optimizer steps for each iterator."""
    return process.optimizer_steps / loader.starts.count


def _looped(process: Process, loader: Loader) -> float:
    """Seconds. Of an iterator that gave several batches, nothing tells when the loop was done with the last of them."""
    if _one_each(loader) or loader.began is None:
        return loader.starts.total + loader.first_waits.total + loader.waits.total + loader.bodies.total
    return max(process.last_sign - loader.began, loader.starts.total + loader.first_waits.total)


def _what(loader: Loader) -> str:
    return "next(iter(loader))" if _one_each(loader) else "each"


def _times(loader: Loader) -> str:
    return "for each batch" if _one_each(loader) else f"and is dropped after {many(round(_each(loader)), 'batch')}"


def _for(process: Process, loader: Loader) -> str:
    batches = many(loader.batches, "batch")
    return batches if _one_each(loader) else f"{batches} and {many(process.optimizer_steps, 'optimizer step')}"


def _rest(loader: Loader, looped: float) -> str:
    if _one_each(loader):
        return f"the step itself {duration(loader.bodies.mean)}"
    return f"all of it, with the training, {duration(looped / loader.starts.count)}"


def _remedy(loader: Loader) -> Remedy:
    wrapped = "" if _one_each(loader) else " Make what wraps the loader, such as a prefetcher, once an epoch."
    return Remedy(
        "Make the iterator once, before the loop: `batches = iter(loader)`, then `next(batches)`, and make a new one "
        f"on StopIteration; or write `for batch in loader`.{wrapped}"
    )
