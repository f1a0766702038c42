"""Batches are small views of large tensors, and the large tensors are what is handed over.

## What it looks at
Batches as workers have made them: the bytes that their tensors show against the bytes of the memory they are views of.
Then how much of the workers' work goes into handing batches over, and how long the loop waits.

## Why it happens
A tensor travels from a worker to the main process as a piece of shared memory, and that piece is the tensor's whole
storage. A slice, a crop, a row or `x[0]` is a view: it shows little and keeps all. Default collating copies and so
hides it; with `batch_size=None`, a `collate_fn` of one's own or samples kept in lists, the view itself is sent, and the
storage behind it is copied into /dev/shm first.

## What to do
`.clone()` what leaves the dataset, or the `collate_fn`: only the copy is sent.

## How sure it is
Certain of the sizes. It speaks when the memory behind a batch is at least four times what the batch shows and 1 MiB
larger, handing over takes a fifth of the workers' work or more, and the loop waits for 30 % of its time.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, handing, holds_up, typical, waiting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Handed, Loader
from ...wording.text import duration, line, many, percent, short, size
from ..rule import rule

TIMES = 4  # memory over what is shown: below that, cloning gains less than it costs in thought
MUCH = 1 << 20  # bytes: a copy of less takes less than handing over takes anyway
HANDING = 0.2  # of the workers' work: else samples take long for another reason


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    outranks=("many-small-tensors",),
    applies_to_trials=True,
)
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.loaders_in_use:
        loads = fetching(case, main, loader)
        batch = typical(loads)
        if not loader.num_workers or batch is None or not _views(batch) or not holds_up(case, loader):
            continue
        if handing(loads) < HANDING:
            continue
        yield case.finding(
            main,
            cause=f"Workers of {loader.name} hand over {size(batch.storage)} for a batch of "
            f"{size(batch.size)}: its tensors are views of larger ones, and those are sent whole.",
            seen=list(_seen(loader, loads, batch)),
            remedy=_remedy(loader),
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _views(batch: Handed) -> bool:
    return batch.storage >= TIMES * batch.size and batch.storage - batch.size >= MUCH


def _seen(loader: Loader, loads: list[Fetching], batch: Handed) -> Iterator[str]:
    looked = sum(len(one.handed) for one in loads)
    yield (
        f"a batch has {many(batch.tensors, 'tensor')} that show {size(batch.size)} of {size(batch.storage)}; "
        f"{many(looked, 'batch')} were looked at"
    )
    handed = [one.handovers for one in loads if one.handovers.count]
    count = sum(one.count for one in handed)
    fetched = sum(one.fetches.count for one in loads)
    if count and fetched:
        yield (
            f"handing one over takes a worker {duration(sum(one.total for one in handed) / count)}, fetching it "
            f"{duration(sum(one.fetches.total for one in loads) / fetched)}"
        )
    loop = waiting(loader)
    yield f"the loop waits for data {percent(loop.share)} of the time, {duration(loop.waited / loop.steps)} a batch"


def _remedy(loader: Loader) -> Remedy:
    if is_users(loader.reads_at):
        where = f"what {line(loader.reads_at)} ({loader.reads_at.function}) returns" if loader.reads_at else ""
        return Remedy(f"Call .clone() on {where}, as in `return view.clone()` instead of `return view`.")
    collate = loader.collate_fn.rpartition(".")[2] if loader.collate_fn else "the collate_fn"
    return Remedy(f"Call .clone() on every view that the dataset at {short(loader.created)}, or {collate}, returns.")
