"""`next(iter(loader))` in the loop starts the loader anew for every batch.

## What it looks at
How often a loader was iterated against how many batches it gave: one batch for each iterator, time after time, though
the loader has more than one batch; and what share of the loop's time went into starting iterators and waiting for
their first batch.

## Why it happens
Every `iter(loader)` starts all workers, fills their queues, and throws everything away when the next one replaces it.
The batch that comes out is right, so nothing looks wrong but the clock. It also draws each batch from a fresh shuffle.

## What to do
Make the iterator once and call `next` on it, starting it again on StopIteration; or loop over the loader.
`persistent_workers=True` alone does not help much: the prefetched batches are still thrown away.

## How sure it is
Certain of the counts. It speaks only when that start-up takes a fifth of the time or more; a single
`next(iter(loader))` to look at a batch, or a loader of one batch, is healthy.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.evidence import Evidence
from ...model.phrases import duration, many, percent
from ...model.questions import loader_name
from ...model.recorded import Loader
from ...model.report import Certainty, Finding, Remedy, Symptom
from ...model.rule import rule

OFTEN = 10  # iterators: fewer may be a look at the data, or a few short validations
SHARE = 0.2  # of the loop's time: below that it is bad style, not a slow run


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("dataloader-bound",))
def check(evidence: Evidence) -> Iterator[Finding]:
    for process in evidence.mains():
        for loader in process.loaders:
            spent, share = _spent(loader)
            if not _one_batch_each(loader) or share < SHARE:
                continue
            workers = many(loader.num_workers, "worker") if loader.num_workers else "the sampler"
            yield Finding(
                cause=f"Every step makes a new iterator of {loader_name(loader)}: next(iter(loader)) starts "
                f"{workers} anew for each batch.",
                seen=[
                    f"{many(loader.starts.count, 'iterator')} for {many(loader.batches, 'batch')}",
                    f"starting one took {duration(loader.starts.mean)}, its first batch another "
                    f"{duration(loader.first_waits.mean)}; the step itself {duration(loader.bodies.mean)}",
                    f"that is {percent(share)} of the loop's time, {duration(spent)} so far",
                ],
                remedy=Remedy(
                    "Make the iterator once, before the loop: `batches = iter(loader)`, then `next(batches)`, and make "
                    "a new one on StopIteration; or write `for batch in loader`."
                ),
                node=process.node,
                rank=process.rank,
                pid=process.pid,
                where=loader.created,
            )


def _one_batch_each(loader: Loader) -> bool:
    many_batches = loader.length is None or loader.length > 1
    return loader.starts.count >= OFTEN and 0 < loader.batches <= 1.2 * loader.starts.count and many_batches


def _spent(loader: Loader) -> tuple[float, float]:
    spent = loader.starts.total + loader.first_waits.total
    return spent, spent / (spent + loader.waits.total + loader.bodies.total) if spent else 0.0
