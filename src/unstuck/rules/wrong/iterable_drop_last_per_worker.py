"""drop_last drops the incomplete last batch of every worker, and together that is a real part of the data.

## What it looks at
How many samples each worker of an iterable dataset fetched, and how many of them it dropped at the end of its stream
because they did not fill a batch.

## Why it happens
With an IterableDataset every worker makes batches of its own stream, and `drop_last=True` applies to each: up to
batch_size - 1 samples are lost per worker and epoch, not per epoch. The more workers, the more is lost, and with short
streams it is everything. Where the order is the same in every epoch, it is always the same samples.

## What to do
`drop_last=False`, if the model can take smaller batches; fewer workers; or a batch size that divides a worker's share.

## How sure it is
Certain of the numbers: they are counted where the samples are dropped. It speaks only when at least a whole batch is
lost in an epoch, which one stream never loses, and at least one sample in fifty.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import each_once, fetched, used_loaders
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import many, percent
from ..rule import rule

SHARE = 0.02  # of the samples: over a long epoch a few incomplete batches make no difference


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in used_loaders(case))


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    if not loader.iterable or not loader.drop_last or not loader.batch_size or loader.num_workers < 2:
        return None
    streams = fetched(case, main, loader)
    # Passes that the loop left early drop nothing: then the share comes out too small, never too large.
    lost = sum(one.dropped for one in streams) // max(loader.passes, 1)
    samples = sum(one.samples for one in streams) // max(loader.passes, 1)
    if lost < loader.batch_size or lost < SHARE * samples:
        return None
    return case.finding(
        main,
        cause=f"{_how_many(lost, samples)} are lost in every epoch: each of the {loader.num_workers} workers of "
        f"{loader.name} drops the end of its own stream that does not fill a batch of {loader.batch_size}.",
        seen=list(_seen(loader, lost, samples, streams[-loader.num_workers :])),
        remedy=_remedy(loader, samples),
        where=loader.created if is_users(loader.created) else loader.reads_at,
        subject=Subject("loader", loader.name),
    )


def _how_many(lost: int, samples: int) -> str:
    return f"All {many(samples, 'sample')}" if lost == samples else f"{lost:,} of {many(samples, 'sample')}"


def _seen(loader: Loader, lost: int, samples: int, crew: list[Fetching]) -> Iterator[str]:
    parts = ", ".join(f"{one.dropped:,} of {one.samples:,}" for one in crew[:8])
    more = f" and {len(crew) - 8} more workers" if len(crew) > 8 else ""
    over = f" over {many(loader.passes, 'pass')}" if loader.persistent_workers else " in one pass"
    yield f"samples that each worker dropped{over}: {parts}{more}"
    alone = samples % (loader.batch_size or 1)
    yield f"that is {percent(lost / samples)} of the data; one stream would lose {alone:,} of {samples:,}"
    if not loader.batches:
        yield f"no batch came in {many(loader.passes, 'pass')}"


def _remedy(loader: Loader, samples: int) -> Remedy:
    share = samples // loader.num_workers
    size = loader.batch_size or 1
    fitting = max((one for one in range(1, size + 1) if share % one == 0), default=1)
    text = f"Set {settings(loader, drop_last=False)} if the model can take smaller batches: nothing is lost then. "
    if fitting > size // 2:
        text += f"Or batch_size={fitting}, which divides the {share:,} samples of a worker. "
    return Remedy(text + f"Or num_workers=1: that loses {samples % size:,} of {samples:,}.")
