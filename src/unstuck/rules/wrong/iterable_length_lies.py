"""An iterable dataset announces another length than it has.

## What it looks at
The length that the loader announced when somebody asked for it (`len(loader)`: a progress bar, a learning-rate
schedule, a framework), and how many batches the epochs brought that came to their end.

## Why it happens
`__len__` of an IterableDataset is whatever its author wrote: rows where `__iter__` yields windows, all rows where some
are filtered out, samples where it yields whole batches, the share of one worker. torch believes it, and warns only when
there are more samples, not when there are fewer.

## What to do
Let `__len__` count what `__iter__` yields, or remove it and give the number of steps to what needs it.

## How sure it is
Certain of both numbers. What torch's rounding explains is left alone (each worker has an incomplete last batch of its
own), and so is less than a twentieth, epochs that are one rank's share of what is announced, resumed loaders, and
epochs that the loop left early.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import each_once, spare
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many, short
from ..rule import rule

SHARE = 0.05  # of the announced length: a few samples that could not be read move no schedule


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in case.training_loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    announced = loader.length
    if not loader.iterable or not announced or not loader.ended or loader.resumed:
        return None
    brought = [one.batches for one in loader.ended]
    if not all(_differs(one, announced, loader, main.world or 1) for one in brought):
        return None
    if not (max(brought) < announced or min(brought) > announced):
        return None
    return case.finding(
        main,
        cause=f"{loader.name[:1].upper()}{loader.name[1:]} announces {many(announced, 'batch')}, but "
        f"an epoch brings {_range(brought)}: whatever counts on len(loader) is off by a factor of "
        f"{max(brought[-1], announced) / max(min(brought[-1], announced), 1):.3g}.",
        seen=list(_seen(loader, brought)),
        remedy=_remedy(loader, brought),
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _differs(brought: int, announced: int, loader: Loader, world: int) -> bool:
    """By more than rounding, and not because this rank has its share of what is announced for all."""
    allowed = max(spare(loader), SHARE * announced)
    divided = world > 1 and abs(brought - announced / world) <= spare(loader) + 1
    return abs(brought - announced) > allowed and not divided


def _range(brought: list[int]) -> str:
    least, most = min(brought), max(brought)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def _seen(loader: Loader, brought: list[int]) -> Iterator[str]:
    ends = ", ".join(f"{one:,}" for one in brought[:6])
    yield f"{many(len(brought), 'pass')} came to an end, after {ends}{' …' if len(brought) > 6 else ''} batches"
    told = f"len(loader) said {loader.length:,}"
    if loader.batch_size:
        told += f", from len(dataset) and batch_size={loader.batch_size}"
    yield told
    yield (
        "a progress bar never fills, and a schedule made for that length never comes to its end"
        if brought[-1] < (loader.length or 0)
        else "a progress bar runs over, and a schedule made for that length ends too early"
    )


def _remedy(loader: Loader, brought: list[int]) -> Remedy:
    place = f" (its __iter__ is at {short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    dataset = loader.dataset.rpartition(".")[2] or "the dataset"
    together = " in all workers together" if loader.num_workers > 1 else ""
    unit = "samples" if loader.batch_size else "batches"
    return Remedy(
        f"Let {dataset}.__len__ return the number of {unit} that __iter__ yields{together}{place}. If that is not "
        f"known beforehand, remove __len__ and give the number to what needs it: steps_per_epoch = {brought[-1]}."
    )
