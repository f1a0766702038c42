"""A batch consists of hundreds of small tensors, and each is handed over on its own.

## What it looks at
How many tensors a batch has that a worker hands over, and how large they are; how much of the workers' work goes into
handing over rather than fetching, and how long the loop waits.

## Why it happens
Each tensor of a batch crosses from the worker to the main process as a piece of shared memory and a file descriptor of
its own, with a message to fetch it: some tens of microseconds on either side, however small it is. Lists of dicts of
tensors, one for each object of each sample, make hundreds of them, and loading with workers is slower than without.

## What to do
Pack in the `collate_fn`: one tensor for each field (`torch.cat`, or padded), with the lengths beside it to cut it apart
again; or return numbers and numpy arrays, which travel inside the message itself.

## How sure it is
Certain of the counts. It speaks from a hundred tensors a batch on, if handing over takes a fifth of the workers' work
or more and the loop waits for 30 % of its time.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, handing, holds_up, typical, waiting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Handed, Loader
from ...wording.text import duration, many, percent, size
from ..rule import rule

MANY = 100  # tensors a batch: at some 20 µs on either side, that is what a fast step takes
SMALL = 64 << 10  # bytes each on average: of larger ones, copying takes longer than handing over
HANDING = 0.2  # of the workers' work: else samples take long for another reason
DEFAULT = "default_collate"


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), applies_to_trials=True)
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.loaders_in_use:
        loads = fetching(case, main, loader)
        batch = typical(loads)
        if not loader.num_workers or batch is None or not _crumbs(batch) or not holds_up(case, loader):
            continue
        if handing(loads) < HANDING:
            continue
        yield case.finding(
            main,
            cause=f"A batch of {loader.name} is {many(batch.tensors, 'tensor')} of "
            f"{size(batch.size / batch.tensors)} on average, and each is handed over on its own: the loop waits for "
            f"data {percent(waiting(loader).share)} of the time.",
            seen=list(_seen(loader, loads, batch)),
            remedy=_remedy(loader, batch),
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _crumbs(batch: Handed) -> bool:
    return batch.tensors >= MANY and batch.size <= SMALL * batch.tensors


def _seen(loader: Loader, loads: list[Fetching], batch: Handed) -> Iterator[str]:
    yield f"a batch of {size(batch.size)} has {many(batch.tensors, 'tensor')}"
    handed = [one.handovers for one in loads if one.handovers.count]
    count, fetched = sum(one.count for one in handed), sum(one.fetches.count for one in loads)
    if count and fetched:
        over = sum(one.total for one in handed) / count
        yield (
            f"packing it up takes a worker {duration(over)}, {duration(over / batch.tensors)} a tensor; fetching it "
            f"{duration(sum(one.fetches.total for one in loads) / fetched)}"
        )
    loop = waiting(loader)
    yield (
        f"a batch is waited for {duration(loop.waited / loop.steps)} and trained on {duration(loader.bodies.mean)}, "
        f"over {many(loop.steps, 'step')}"
    )


def _remedy(loader: Loader, batch: Handed) -> Remedy:
    own = loader.collate_fn is not None and not loader.collate_fn.endswith(DEFAULT)
    where = f"In {loader.collate_fn.rpartition('.')[2]}" if own and loader.collate_fn else "In a collate_fn"
    return Remedy(
        f"{where}, pack each field of the batch into one tensor: torch.cat(fields), with the lengths as a list, and "
        f"fields.split(lengths) where they are used; or return numbers and numpy arrays instead of the "
        f"{batch.tensors:,} tensors. "
        "With num_workers=0 nothing is handed over: for samples as cheap as these it may be faster."
    )
