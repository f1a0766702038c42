"""One slow sample holds up the loop while the other workers have finished batches ready.

## What it looks at
Waits for a batch that stand out, at least half a second and ten times the usual one: how much of the loop's time they
take, which worker fetched the batch that was waited for, which of its samples took long, and how many of the other
workers had nothing to do meanwhile. The first batch of a pass is left aside.

## Why it happens
A DataLoader hands batches out in the order in which they were asked for. A worker that meets a sample which takes far
longer than the others (a huge file, a slow store, a retry) holds back every batch behind it, and the other workers stop
as soon as they have prepared `prefetch_factor` batches each.

## What to do
Find out why these samples take so long, and mend or leave them out. `in_order=False` (torch 2.6 and later) hands out
what is ready, at the price of an order that differs from run to run. A larger `prefetch_factor` hides what is shorter
than the batches that it keeps ready.

## How sure it is
Sure of what was waited for: the fetch fills the wait. It speaks when such waits take a tenth of the loop's time and
came more than once, with most of the other workers idle. Where waits are even, or the other workers are busy too, the
loader as a whole is too slow, and that is `dataloader-bound`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case, is_users
from ...analysis.memory import oom_killed
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Spike
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent, short
from ..rule import rule

SHARE = 0.1  # of the loop's time: what takes less is not worth another order of batches
SECONDS = 5.0  # of looping: below that, start-up effects are all there is
TWICE = 2  # once may be anything: a cold cache, a hiccup of the store
IDLE = 0.5  # of the other workers: with most of them busy, there is no finished work that is held back
MANY = 100  # batches for each worker: more are a data set in memory
ALONE = 0.5  # of a fetch that one sample takes: else the batch is slow as a whole


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.training_loaders:
        if not loader.in_order or loader.spiked < SHARE * loader.spiked_of or loader.spiked_of < SECONDS:
            continue
        known = [one for one in loader.spikes if one.pid is not None]
        held = [one for one in known if one.idle >= IDLE * (loader.num_workers - 1)]
        if len(held) < TWICE or len(held) * 2 <= len(known):
            continue
        worst = held[0]
        yield case.finding(
            main,
            cause=f"{percent(loader.spiked / loader.spiked_of)} of the loop's time goes into waiting for single slow "
            f"batches while the other workers of {loader.name} are idle: batches are handed out in order, and "
            f"{_slow(worst)} took {duration(worst.sample_seconds or worst.fetch_seconds)}.",
            seen=list(_seen(loader, held)),
            remedy=_remedy(loader, held, _prefetch(case, main, loader, worst)),
            worker=worst.worker,
            pid=worst.pid,
            onset_s=min(one.at for one in held),
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("sample", str(worst.index)) if _by_one(worst) else Subject("batch", str(worst.batch)),
        )


def _by_one(spike: Spike) -> bool:
    return spike.index is not None and spike.sample_seconds >= ALONE * spike.fetch_seconds


def _slow(spike: Spike) -> str:
    return f"sample {spike.index}" if _by_one(spike) else f"batch {spike.batch}"


def _seen(loader: Loader, held: list[Spike]) -> Iterator[str]:
    others = many(loader.num_workers - 1, "other worker")
    for one in held[:3]:
        took = duration(one.sample_seconds or one.fetch_seconds)
        yield (
            f"batch {one.batch} was waited for {duration(one.seconds)}: {_slow(one)} took {took} in worker "
            f"{one.worker}; {one.idle} of {others} had nothing to do"
        )
    usual = f"half of all batches are waited for {duration(loader.waits.p50)} or less"
    yield f"{usual}; waits like these take {duration(loader.spiked)} of {duration(loader.spiked_of)}"


def _remedy(loader: Loader, held: list[Spike], more_ready: str) -> Remedy:
    samples = [str(one.index) for one in held if _by_one(one)]
    which = f"dataset[{samples[0]}]" if samples else "the batches above"
    more = f" (likewise {', '.join(samples[1:6])})" if len(samples) > 1 else ""
    spot = f" in {short(loader.reads_at)}" if is_users(loader.reads_at) else ""
    return Remedy(
        f"Find out why {which} takes so long{spot}{more}, and mend or leave it out. Or pass in_order=False to the "
        f"DataLoader (torch 2.6 and later): the loop goes on with what is ready, in an order that differs from run to "
        f"run.{more_ready}"
    )


def _prefetch(case: Case, main: Process, loader: Loader, worst: Spike) -> str:
    """Batches that are ready outlast the slow one, if there are enough of them, and memory for them."""
    if oom_killed(case, [main, *case.workers_of(main, loader)]) is not None:
        return ""
    factor = ceil(worst.fetch_seconds / max(loader.bodies.mean, 1e-4) / loader.num_workers) + 1
    if factor > MANY:
        return ""
    return f" Or keep enough batches ready to outlast it, if memory allows: {settings(loader, prefetch_factor=factor)}."
