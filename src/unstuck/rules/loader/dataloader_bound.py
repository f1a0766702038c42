"""The training loop waits for data more than it should.

## What it looks at
For each loader that is trained on: how long every `next()` took against how long the loop's body took, the first batch
of each pass left aside. Then what the time in the workers went into (the dataset's own code, collating, waiting for an
index), how much of it was processor time, and how many processors the training may use.

## Why it happens
Samples take longer to load than batches take to train on, and there are too few workers to hide it: too few processors,
a slow disk, a costly decode or augmentation; or `num_workers=0`, which loads every batch in the training process itself
while nothing else happens.

## What to do
What the evidence of this run points at: more workers while processors are idle and workers are busy, cheaper samples
when all processors are in use, faster or nearer storage when workers wait rather than compute.

## How sure it is
Certain of the shares: they are measured over every step. It speaks from 30 % waiting and 2 ms a step on, in a loop of
at least ten batches and five seconds, so that a short trial, a warm-up or a small model on data in memory stays quiet.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...model.evidence import Evidence, Fetching, Loader, Process
from ...model.phrases import duration, line, many, percent, short
from ...model.questions import host_of, is_users, loader_name, training_loaders, workers_of
from ...model.report import Finding, Remedy, Subject, Symptom
from ...model.rule import rule

SHARE = 0.3  # a GPU kept busy less than 70 % of the time is the usual mark of a loader that does not keep up
BATCHES = 10
SECONDS = 5.0  # of looping: below that, start-up effects are all there is
LONG = 0.002  # seconds of waiting a step: below that, handing a batch over from a worker would cost as much
WAITING_EACH = 4  # workers for each processor when they wait rather than compute: each costs memory all the same
COMPUTING = 0.7  # of a fetch spent on the processor: the rest is waiting for storage or sleep


@rule(explains=Symptom.SLOW, needs=("recording",))
def check(evidence: Evidence) -> Iterator[Finding]:
    for main, loader in training_loaders(evidence):
        waited, looped = loader.waits.total, loader.waits.total + loader.bodies.total
        if loader.waits.count < BATCHES or looped < SECONDS or waited < SHARE * looped or loader.waits.mean < LONG:
            continue
        fetching = _fetching(evidence, main, loader)
        yield Finding(
            cause=f"Training waits for data {percent(waited / looped)} of the time: {_why(loader, fetching)}",
            seen=list(_seen(loader, fetching)),
            remedy=_remedy(loader, fetching, _cpus(evidence, main)),
            node=main.node,
            rank=main.rank,
            pid=main.pid,
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader_name(loader)),
        )


def _fetching(evidence: Evidence, main: Process, loader: Loader) -> list[Fetching]:
    if loader.num_workers == 0:
        return [one for one in main.fetching if one.loader == loader.number]
    return [one for worker in workers_of(evidence, main, loader) for one in worker.fetching]


def _cpus(evidence: Evidence, main: Process) -> int | None:
    host = host_of(evidence, main)
    return host.cpus or None if host else None


def _why(loader: Loader, fetching: list[Fetching]) -> str:
    name = loader_name(loader)
    if loader.num_workers == 0:
        return f"{name} has num_workers=0, so the training process loads every batch itself."
    busy = _busy(fetching)
    workers = "its only worker is" if loader.num_workers == 1 else f"its {loader.num_workers} workers are"
    return f"{name} does not keep up, though {workers} busy {percent(busy)} of the time."


def _busy(fetching: list[Fetching]) -> float:
    worked = sum(one.fetches.total for one in fetching)
    idle = sum(one.idle.total for one in fetching)
    return worked / (worked + idle) if worked else 0.0


def _parts(fetching: list[Fetching]) -> tuple[float, float, float]:
    """Seconds of fetching in all, in the dataset's own code, and in collating."""
    fetched = sum(one.fetches.total for one in fetching)
    collated = sum(one.collates.total for one in fetching)
    return fetched, max(fetched - collated, 0.0), collated


def _processor_share(fetching: list[Fetching]) -> float | None:
    """Processor time over time, from the batches in which both were taken."""
    timed = [(one.cpu.mean * one.fetches.count, one.fetches.total) for one in fetching if one.cpu.count]
    total = sum(wall for _, wall in timed)
    return min(sum(cpu for cpu, _ in timed) / total, 1.0) if total else None


def _seen(loader: Loader, fetching: list[Fetching]) -> Iterator[str]:
    yield (
        f"a batch is waited for {duration(loader.waits.mean)} and trained on {duration(loader.bodies.mean)}, "
        f"over {many(loader.waits.count, 'step')}"
    )
    fetched, own, collated = _parts(fetching)
    count = sum(one.fetches.count for one in fetching)
    if not fetched or not count:
        return
    where = f" ({line(loader.reads_at)})" if is_users(loader.reads_at) else ""
    yield (
        f"loading a batch takes {duration(fetched / count)}: {percent(own / fetched)} in the dataset's own code{where},"
        f" {percent(collated / fetched)} in collating"
    )
    share = _processor_share(fetching)
    if share is not None:
        rest = "" if share >= COMPUTING else ", the rest is waiting"
        yield f"{percent(share)} of that is processor time{rest}"


def _remedy(loader: Loader, fetching: list[Fetching], cpus: int | None) -> Remedy:
    fetched, own, collated = _parts(fetching)
    count = sum(one.fetches.count for one in fetching)
    per_batch = fetched / count if count else 0.0
    share = _processor_share(fetching)
    waiting = share is not None and share < COMPUTING
    needed = ceil(per_batch / max(loader.bodies.mean, 1e-4)) + 1 if per_batch else loader.num_workers + 1
    most = WAITING_EACH * (cpus or 2) if waiting else max((cpus or 2) - 1, 1)
    wanted = min(needed, most)
    place = short(loader.reads_at) if is_users(loader.reads_at) else "the dataset"
    cheaper = f"make {'collating' if collated > own else place} cheaper"
    if wanted > loader.num_workers:
        reason = f"loading a batch takes {duration(per_batch)}, training on it {duration(loader.bodies.mean)}"
        limit = f"; {many(cpus, 'processor')} may be used" if cpus and not waiting else ""
        text = f"Set num_workers={wanted} ({reason}{limit})."
        if wanted < needed:
            text += f" That does not suffice for all of it: {cheaper}, or prepare the data beforehand."
        return Remedy(text)
    if waiting:
        return Remedy(
            f"The workers wait for storage: bring the data nearer (a local disk), read larger pieces, or {cheaper}."
        )
    used = f"all {many(cpus, 'processor')} are taken" if cpus else "more workers would share the same processors"
    return Remedy(f"More workers will not help, {used}: {cheaper}, or prepare the data beforehand.")
