"""Every epoch goes through the samples in the same order: nobody tells the DistributedSampler which epoch it is.

## What it looks at
The epoch, seed and length of torch's DistributedSampler at the beginning of each pass, also where it stands inside a
batch sampler or behind what accelerate puts around it. Which passes trained, by the optimizer steps in them.

## Why it happens
`DistributedSampler(shuffle=True)` shuffles with a generator that it seeds anew for every pass with `seed + epoch`: all
ranks must come to the same order without talking to each other. It does not count epochs itself. Unless `set_epoch` is
called, `epoch` remains 0, every pass has the same order, and every rank sees the same part of the data forever. With
one rank it is the same: it sees all samples, in one order that never changes.

## What to do
Call `sampler.set_epoch(epoch)` on all ranks before each epoch begins.

## How sure it is
Certain: the order follows from these numbers. It speaks where at least two passes trained and all of them had the same
ones. Samplers that make an order of their own, `shuffle=False`, a new sampler with another seed and one over other data
are left alone, and so is a pass that only looks at a batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import each_once, made_anew, order, trained_passes
from ...evidence.distributed import Sampling
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many, percent
from ..rule import rule

PASSES = 2  # that trained: in the first any order will do


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(
        _judge(case, main, loaders) for main in case.ranks or case.mains for loaders in made_anew(main)
    )


def _judge(case: Case, main: Process, loaders: list[Loader]) -> Finding | None:
    told = [pair for loader in loaders for pair in _trained(main, loader)]
    samplings = [one for _, one in told]
    if len(told) < PASSES or not all(_shuffles(one) for one in samplings) or len(set(map(order, samplings))) > 1:
        return None
    loader, first = told[0]
    return case.finding(
        main,
        rank=None,  # it is so on all of them
        pid=None,
        cause=f"Every epoch goes through the samples in the same order: the epoch of the {_kind(first)} of "
        f"{loader.name} was {first.epoch} at the beginning of {_all(len(told))}, because set_epoch was not "
        "called with a new one.",
        seen=list(_seen(loaders, samplings)),
        remedy=_remedy(loader, first),
        where=loader.created if is_users(loader.created) else loader.reads_at,
        subject=Subject("loader", loader.name),
    )


def _trained(main: Process, loader: Loader) -> list[tuple[Loader, Sampling]]:
    trained = trained_passes(main, loader)
    return [(loader, one) for one in loader.sampling if one.number in trained]


def _shuffles(one: Sampling) -> bool:
    """Into an order that is torch's own. A single sample has but one order."""
    return one.standard and one.shuffle and (one.dataset_length or 0) > 1


def _kind(one: Sampling) -> str:
    return one.kind.rpartition(".")[2]


def _all(count: int) -> str:
    return "both passes" if count == 2 else f"all {count} passes"


def _seen(loaders: list[Loader], told: list[Sampling]) -> Iterator[str]:
    first = told[0]
    epochs, seeds = zip(*((one.epoch, one.seed) for one in told), strict=True)
    anew = "; the loader is made anew, and its sampler with it" if len(loaders) > 1 else ""
    yield f"at the beginning of {_all(len(told))}: epoch {_listed(epochs)}; seed {_listed(seeds)}{anew}"
    share = first.samples / (first.dataset_length or 1)
    if first.replicas == 1:
        yield f"the only rank is given all {many(first.samples, 'sample')}, in the same order in every pass"
    else:
        yield (
            f"each of the {first.replicas} ranks is given {many(first.samples, 'sample')} of {first.dataset_length:,}, "
            f"the same {percent(share)} in every pass"
        )
    passes = sum(one.passes for one in loaders)
    if passes > len(told):
        yield f"{many(passes, 'pass')} had begun in all"


def _listed(values: tuple[int | None, ...]) -> str:
    return ", ".join(str(one) for one in values)


def _remedy(loader: Loader, one: Sampling) -> Remedy:
    inside = "sampler" if loader.sampler == one.kind else "batch_sampler.sampler"
    return Remedy(
        f"Call `loader.{inside}.set_epoch(epoch)` on every rank before the `for … in loader` of each epoch, with its "
        "number; a resumed run goes on with the epoch it resumes."
    )
