"""One rank is slower than the others at every step, and all ranks run at its pace.

## It means

In a collective every rank waits for the last one. A rank with a slower disk, larger samples, fewer CPU cores, a slower
GPU, or with work that it alone does at every step (logging, a metric) holds up all others. A profile of any other rank
shows a long backward or all_reduce: that is waiting, and making it faster gains nothing.

## Fix

Fix that rank: its storage, its share of the data, what only it does between two steps. Leave the others alone.

```python
# before: rank 0 alone does it at every step
if rank == 0:
    writer.add_histogram("weights", model.weight, step)

# after
if rank == 0 and step % 100 == 0:
    writer.add_histogram("weights", model.weight, step)
```

If its loading mostly waits for storage, more workers on that rank hide it until the storage is fixed:

```python
DataLoader(dataset, num_workers=8 if rank == 1 else 4)
```

## Check it yourself

Time the step up to the collective, not with it:

```python
started = time.perf_counter()
batch = next(batches)
loaded = time.perf_counter() - started
times = [None] * dist.get_world_size()
dist.all_gather_object(times, loaded)  # every hundred steps: the rank with the long time is the straggler
```

```sh
nvidia-smi --query-gpu=index,clocks.sm,temperature.gpu,pcie.link.width.current --format=csv     # a throttled GPU?
```

## Not this, if

- rank 0 loads the data of all ranks: [accelerate-rank0-dispatcher](accelerate-rank0-dispatcher.md)
- every rank waits for its data: [dataloader-bound](dataloader-bound.md)
- the rank waits for CPU cores: [cpu-oversubscription](cpu-oversubscription.md),
  [too-many-workers](too-many-workers.md)
- nothing moves any more: [silent-rank-data-stall](silent-rank-data-stall.md)

## How sure

Judged from when each rank reached each collective, by torch's Flight Recorder: the time before the collective, not the
time in it. The rank that comes last at step after step is the one that the others wait for. Then from how long each
rank waited for data: a rank whose data comes late waits long for its batches and hardly at all in collectives, and the
others are its mirror image. Where the Flight Recorder was not read, or ranks are on several nodes, whose clocks differ,
that mirror image alone. Sure of which rank is late and by how much: it is the average of all steps, over the newest
collectives. It speaks from a fifth of a step and five milliseconds on, over ten steps and three seconds, if nearly all
waiting was for the same rank, again and again. Lateness that changes hands is left alone, and so is accelerate's
dispatcher, where one rank loads for all by design. Half of the delay has to be the rank's own time: what it or its
workers waited for a CPU core, by the kernel's count, does not count, so a loaded machine makes no straggler. Whether it
lost the time with data is measured; if not, what it did instead is not known.

## Seen in

- https://github.com/pytorch/pytorch/issues/59433: ranks spend different times in the same collective
- https://github.com/traceopt-ai/traceml/issues/252: backward takes equally long on all ranks, whichever is slow
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
        cause=f"Every step waits for rank {late.process.rank}: {_why(late, loader)}.",
        seen=list(_seen(case, late, loader)),
        remedy=_remedy(late, loader),
        alternatives=_workers(case, late, loader) if loader is not None else [],
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
        return f"it is {duration(late.by)} late in steps of {duration(late.step)}, not because of data"
    most = max(_a_wait(other) for one in late.others if (other := trained_loader(one)) is not None)
    return f"it waits {duration(_a_wait(loader))} for each batch, the others at most {duration(most)}"


def _seen(case: Case, late: Late, loader: Loader | None) -> Iterator[str]:
    gain = late.step / max(late.step - late.by, 1e-9)
    yield (
        f"{who(late.process)} comes {duration(late.by)} later than {_others(late)}, in steps of {duration(late.step)}: "
        f"without that the run would be {gain:.1f} times as fast"
    )
    if late.traced:
        ways = ", ".join(f"rank {rank} {duration(max(one, 0.0))}" for rank, one in sorted(late.before.items())[:8])
        yield f"before the collective, each step: {ways}"
        yield (f"it came last in {late.times} of {late.steps} steps; {percent(late.for_it)} of all waiting was for it")
    spot = _meeting(late)
    if spot is not None:
        wait = "waits" if len(late.others) == 1 else "wait"
        yield f"{_others(late)} {wait} for it at {short(spot)}: a long backward or collective there is only that"
    ranks = sorted([late.process, *late.others], key=lambda one: one.rank or 0)[:8]
    known = [(one.rank, own) for one in ranks if (own := trained_loader(one)) is not None]
    if known:
        parts = "; ".join(f"rank {rank} {duration(_a_wait(own))} + {duration(own.bodies.mean)}" for rank, own in known)
        yield f"per step, waiting for data + the rest: {parts}"
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
        yield f"loading a batch takes {duration(own)} on this rank, {duration(median(rest))} on the others"
    culprit = _worker(case, late.process, loader)
    if culprit is not None and loader.num_workers > 1:
        yield f"{who(culprit)} is more than {TIMES} times as slow as the other workers of its rank"


def _a_fetch(known: list[Fetching]) -> float:
    count = sum(one.fetches.count for one in known)
    return sum(one.fetches.total for one in known) / count if count else 0.0


def _worker(case: Case, main: Process, loader: Loader) -> Process | None:
    """The only one, or one that is far slower than the others of the newest epoch."""
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


def _remedy(late: Late, loader: Loader | None) -> Remedy:
    rank = late.process.rank
    commands = [f"unstuck why {late.process.pid} --seconds 10"] if late.process.alive else []
    if loader is None:
        text = (
            f"Do less often what rank {rank} alone does between two steps (logging, metrics, saving); else compare its "
            "GPU and CPU with the others'."
        )
        return Remedy(text, commands)
    place = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    text = f"Compare what rank {rank} reads{place} with what the others read: its disk, its samples, its share."
    return Remedy(text, commands)


def _workers(case: Case, late: Late, loader: Loader) -> list[Remedy]:
    """So many would load as fast as the others compute. Where loading computes, there would have to be CPU cores."""
    known = fetching(case, late.process, loader)
    share = on_core(known)
    share = 1.0 if share is None else share
    needed = ceil(_a_fetch(known) / max(late.step - late.by, 1e-3))
    if share >= ON_PROCESSOR or not loader.num_workers < needed <= MOST:
        return []
    code = settings(loader, num_workers=needed)
    plain = f"num_workers={needed}"
    return [
        Remedy(
            f"Hide it with more workers on this rank, until then: its loading is {percent(1 - share)} waiting.",
            code=[f"DataLoader(..., {plain})" if code == plain else code],
        )
    ]
