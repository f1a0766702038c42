"""Rare slow samples stall the training loop, while the other workers are idle with finished batches.

## It means
A DataLoader delivers batches in the order in which they were requested. A worker that meets a sample which takes far
longer than the others (a huge file, slow storage, a retry) holds back every batch behind it. The other workers stop as
soon as they have prepared `prefetch_factor` batches each.

## Fix
Find out why these samples take so long, and fix or remove them. Or give the slow operation a timeout.

If the order of batches does not matter, take the ones that are ready (torch 2.6 and later). The order then differs from
run to run. torch warns that the data distribution may become skewed: samples that are slow come later, and where slow
samples belong to one class or source, the model sees them unevenly.
```python
loader = DataLoader(dataset, num_workers=4, in_order=False)
```
A somewhat larger `prefetch_factor` hides samples that are shorter than the batches it keeps ready. It costs
num_workers x prefetch_factor batches of memory, so keep it small:
```python
loader = DataLoader(dataset, num_workers=4, prefetch_factor=4)
```

## Check it yourself
Time every sample once, and print the slowest:
```python
import time


def seconds(index):
    start = time.perf_counter()
    dataset[index]
    return time.perf_counter() - start


print(sorted(((seconds(i), i) for i in range(len(dataset))), reverse=True)[:10])
```

## Not this, if
- all waits are alike, or the other workers are busy, too: [dataloader-bound](dataloader-bound.md)
- the slow sample never ends: [worker-blocked-io](worker-blocked-io.md),
  [worker-infinite-loop](worker-infinite-loop.md)
- one long wait at the start of each epoch: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md)
- the slow sample ends the run: [dataloader-timeout](dataloader-timeout.md)

## How sure
Judged from waits for a batch that are outliers, at least half a second and ten times the usual one: how much of the
loop's time they take, which worker loaded the batch, which of its samples took long, and how many of the other workers
were idle during that time. The first batch of an epoch is left aside. Certain of the cause of the waits: loading that
batch fills the wait. It speaks when such waits take a tenth of the loop's time and came more than once, with most of
the other workers idle. Where waits are even, or the other workers are busy too, the loader as a whole is too slow, and
that is `dataloader-bound`.

## Seen in
- https://github.com/pytorch/pytorch/issues/105203: the loader waited for a slow worker although others had data ready.
- https://github.com/pytorch/pytorch/pull/141833: the option for batches out of order, because a handful of slow samples
  held up the fast ones.
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
from ...wording.text import duration, many, percent
from ..rule import rule

SHARE = 0.1  # of the loop's time: what takes less is not worth another order of batches
SECONDS = 5.0  # of looping: below that, start-up effects are all there is
TWICE = 2  # once may be anything: a cold cache, a hiccup of the store
IDLE = 0.5  # of the other workers: with most of them busy, there is no finished work that is held back
MOST = 8  # batches for each worker: more of them take memory that was not planned for
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
        fix, *others = _ways(case, loader, held, _prefetch(case, main, loader, worst))
        yield case.finding(
            main,
            cause=f"Rare slow {'samples' if _by_one(worst) else 'batches'} stall the loop "
            f"{percent(loader.spiked / loader.spiked_of)} of the time while the other workers are idle "
            f"({_slow(worst)}: {duration(worst.sample_seconds or worst.fetch_seconds)}).",
            seen=list(_seen(loader, held)),
            remedy=fix,
            alternatives=others,
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
            f"batch {one.batch}: {duration(one.seconds)} waiting; {_slow(one)} took {took} in worker {one.worker}, "
            f"{one.idle} of {others} idle"
        )
    usual, spiked = duration(loader.waits.p50), f"{duration(loader.spiked)} of {duration(loader.spiked_of)}"
    yield f"median wait: {usual}; waits like these: {spiked}"
    yield f"loader: {loader.name}"


def _ways(case: Case, loader: Loader, held: list[Spike], prefetch: int | None) -> list[Remedy]:
    """The fix, and other ways out."""
    samples = [str(one.index) for one in held if _by_one(one)]
    ways = [
        _slowest(loader, samples),
        *case.from_version(
            "torch", 2, 6,
            remedy=Remedy(
                "If order does not matter, take batches as they are ready; this may skew the data distribution",
                code=["DataLoader(..., in_order=False)"],
            ),
        ),
    ]  # fmt: skip
    if prefetch is not None:
        ready = settings(loader, prefetch_factor=prefetch)
        ways.append(Remedy(f"Keep more batches ready, if memory allows: {ready}."))
    return ways


def _slowest(loader: Loader, samples: list[str]) -> Remedy:
    more = f" (also {', '.join(samples[1:5])})" if len(samples) > 1 else ""
    if not samples:
        return Remedy("Find out why these batches take so long; fix or remove the samples that do.")
    if loader.iterable or not samples[0].isdigit():
        return Remedy(f"Find out why sample {samples[0]} takes so long{more}; fix or remove such samples.")
    code = ["start = time.perf_counter()", f"dataset[{samples[0]}]", "print(time.perf_counter() - start)"]
    return Remedy(f"Time sample {samples[0]} alone{more}, then fix or remove such samples.", code=code)


def _prefetch(case: Case, main: Process, loader: Loader, worst: Spike) -> int | None:
    """Batches that are ready outlast the slow one, if there are enough of them, and memory for them."""
    if oom_killed(case, [main, *case.workers_of(main, loader)]) is not None:
        return None
    factor = ceil(worst.fetch_seconds / max(loader.bodies.mean, 1e-4) / loader.num_workers) + 1
    return factor if (loader.prefetch_factor or 2) < factor <= MOST else None
