"""One rank is slower than the others at every step, and all of them go at its pace.

## What it looks at
When each rank came to each collective, from torch's Flight Recorder: the time before the collective, not the time in
it. The rank that comes last at step after step is the one that the others wait for. Then how long each rank waited for
data: a rank whose data comes late waits long for its batches and hardly at all in collectives, and the others are its
mirror image. Where the Flight Recorder was not read, or ranks are on several nodes, whose clocks differ, that mirror
image alone.

## Why it happens
In a collective every rank waits for the last one. A rank with a slower disk, larger samples, fewer processors, a slower
device, or with work that it alone does at every step (logging, a metric) holds up all others. A profile of any other
rank shows a long backward or all_reduce: that is waiting, and making it faster gains nothing.

## What to do
Mend that rank: its storage, its share of the data, what only it does between two steps. Leave the others alone.

## How sure it is
Sure of who is late and by how much: it is the average of all steps, over the newest collectives. It speaks from a fifth
of a step and five milliseconds on, over ten steps and three seconds, if nearly all waiting was for the same rank, again
and again. Lateness that changes hands is left alone, and so are accelerate's dispatcher, where one rank loads for all
by design. Half of the delay has to be the rank's own time: what it or its workers waited for a CPU core, by the
kernel's count, does not count, so a loaded machine makes no straggler. Whether it lost the time with data is measured;
if not, what it did instead is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from statistics import median

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, on_core, waiting
from ...analysis.ranks import listed
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, percent, short, who
from ..rule import Level, rule
from ._lateness import LEAST, Late, is_own, latest, trained_loader

SHARE = 0.2  # of a step: equal machines differ by less
SECONDS = 3.0  # of training: start-up is uneven
HALF = 0.5  # of the delay, from which on something explains it
TIMES = 2  # as slow as the other workers of its rank: then it is this one
MOST = 16  # workers that are advised
ON_PROCESSOR = 0.7  # of the time in which a batch is loaded: the rest is waiting for storage


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    late = latest(case)
    if late is None or late.share < SHARE or late.by < LEAST or late.loops < SECONDS or not is_own(case, late):
        return
    loader = _waits_for(late)
    culprit = _worker(case, late.process, loader) if loader is not None else None
    yield case.finding(
        late.process,
        cause=f"Rank {late.process.rank} (pid {late.process.pid}) holds up all others: it comes {duration(late.by)} "
        f"later than {_others(late)}, in steps of {duration(late.step)} on average. {_why(late, loader)}",
        seen=list(_seen(case, late, loader)),
        remedy=_remedy(case, late, loader),
        worker=culprit.worker if culprit is not None else None,
        where=_line(loader),
        subject=Subject("loader", loader.name) if loader is not None else None,
    )


def _waits_for(late: Late) -> Loader | None:
    """The loader whose batches it waits for longer than the others do, if that is most of its delay."""
    loader = trained_loader(late.process)
    rest = [_a_wait(other) for one in late.others if (other := trained_loader(one)) is not None]
    if loader is None or not rest:
        return None
    return loader if _a_wait(loader) - max(rest) >= HALF * late.by else None


def _a_wait(loader: Loader) -> float:
    known = waiting(loader)
    return known.waited / known.steps if known.steps else 0.0


def _line(loader: Loader | None) -> Place | None:
    if loader is None:
        return None
    return loader.reads_at if is_users(loader.reads_at) else loader.created


def _others(late: Late) -> str:
    return listed(sorted(one.rank or 0 for one in late.others))


def _why(late: Late, loader: Loader | None) -> str:
    if loader is None:
        return "It does not wait for data in that time: the delay is in what this rank alone does or computes."
    most = max(_a_wait(other) for one in late.others if (other := trained_loader(one)) is not None)
    return f"It waits {duration(_a_wait(loader))} for each batch of {loader.name}, the others at most {duration(most)}."


def _seen(case: Case, late: Late, loader: Loader | None) -> Iterator[str]:
    if late.traced:
        ways = ", ".join(f"rank {rank} {duration(max(one, 0.0))}" for rank, one in sorted(late.before.items())[:8])
        yield f"before the collective, each step: {ways}"
        yield (
            f"it came last in {late.times} of {late.steps} steps; {percent(late.for_it)} of all waiting for the last "
            "one was for it"
        )
    spot = _meeting(late)
    if spot is not None:
        yield f"{_others(late)} {'waits' if len(late.others) == 1 else 'wait'} for it at {short(spot)}"
    ranks = sorted([late.process, *late.others], key=lambda one: one.rank or 0)[:8]
    known = [(one.rank, own) for one in ranks if (own := trained_loader(one)) is not None]
    if known:
        parts = "; ".join(f"rank {rank} {duration(_a_wait(own))}, {duration(own.bodies.mean)}" for rank, own in known)
        yield f"waiting for a batch, then the rest of the step: {parts}"
    if loader is not None:
        yield from _loading(case, late, loader)


def _loading(case: Case, late: Late, loader: Loader) -> Iterator[str]:
    own = _a_fetch(fetching(case, late.process, loader))
    rest = [
        one
        for other in late.others
        if (its := trained_loader(other)) is not None and (one := _a_fetch(fetching(case, other, its)))
    ]
    if own and rest:
        yield f"loading a batch takes {duration(own)} there, {duration(median(rest))} elsewhere"
    culprit = _worker(case, late.process, loader)
    if culprit is not None and loader.num_workers > 1:
        yield f"it is {who(culprit)} that is slow, more than {TIMES} times as slow as the others of its rank"


def _a_fetch(known: list[Fetching]) -> float:
    count = sum(one.fetches.count for one in known)
    return sum(one.fetches.total for one in known) / count if count else 0.0


def _worker(case: Case, main: Process, loader: Loader) -> Process | None:
    """The only one, or one that is far slower than the others of the newest pass."""
    crew = case.workers_of(main, loader)[-loader.num_workers :] if loader.num_workers else []
    if len(crew) < 2:
        return crew[0] if crew else None
    times = {one.pid: _a_fetch(one.fetching) for one in crew}
    slowest = max(crew, key=lambda one: times[one.pid])
    rest = median(times[one.pid] for one in crew if one is not slowest)
    return slowest if rest and times[slowest.pid] >= TIMES * rest else None


def _meeting(late: Late) -> Place | None:
    """The line at which ranks wait for each other."""
    newest = [one.where for other in late.others for one in other.collectives[-1:]]
    return next((one for one in newest if is_users(one)), None)


def _remedy(case: Case, late: Late, loader: Loader | None) -> Remedy:
    rank, gain = late.process.rank, late.step / max(late.step - late.by, 1e-9)
    hope = f"Without its delay a step takes {duration(late.step - late.by)}, and the run is {gain:.1f} times as fast. "
    rest = f"Do not tune {_others(late)}: long backwards and collectives there are waiting for rank {rank}."
    commands = [f"unstuck why {late.process.pid} --seconds 10"] if late.process.alive else []
    if loader is None:
        return Remedy(
            f"{hope}Look at what rank {rank} alone does between two steps (logging, metrics, saving, an `if rank == "
            f"{rank}`) and at its device and processors. {rest}",
            commands,
        )
    place = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    text = f"{hope}Compare what rank {rank} reads{place} with what the others read: its disk, its samples, its share. "
    return Remedy(f"{text}{_workers(case, late, loader)}{rest}", commands)


def _workers(case: Case, late: Late, loader: Loader) -> str:
    """So many would load as fast as the others compute. Where loading computes, there would have to be processors."""
    known = fetching(case, late.process, loader)
    share = on_core(known)
    share = 1.0 if share is None else share
    needed = ceil(_a_fetch(known) / max(late.step - late.by, 1e-3))
    if share >= ON_PROCESSOR or not loader.num_workers < needed <= MOST:
        return ""
    return (
        f"Its loading is {percent(1 - share)} waiting, so until that is mended {settings(loader, num_workers=needed)} "
        "on this rank hides it. "
    )
