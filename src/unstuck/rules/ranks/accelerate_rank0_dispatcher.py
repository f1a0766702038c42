"""Rank 0 loads the data of all ranks and sends them their part, and cannot keep up.

## What it looks at
What came out of accelerate's `prepare`: a DataLoaderDispatcher is iterated over on rank 0 alone. Then, on rank 0, how
long the loop waited for batches against how long it trained on them, how many it fetched for each step, and what
fetching one cost.

## Why it happens
For a stream (an IterableDataset), and with `dispatch_batches=True`, accelerate does not share the data out. Rank 0
fetches one batch for every rank, joins them and broadcasts the result; each rank keeps its slice. So a step takes as
long as loading all these batches on one process, and gets slower with every rank that is added, while the others wait
in the broadcast. Their own workers are started all the same, and what they prefetch is thrown away.

## What to do
Let every rank read its own part of the stream, and keep that loader away from `prepare`. `dispatch_batches=False` alone
does not help a stream: then every rank reads all of it and keeps one batch in as many as there are ranks. For Hugging
Face's streams with at least as many shards as ranks it does, and for map-style datasets.

## How sure it is
Certain of who loads and of the shares: they are measured over every step. It speaks from 30 % waiting on, in a loop of
at least ten batches and three seconds, and is silent where rank 0's workers had to wait for processors: then it is the
machine that is too small, not the way the data is handed out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.cpu_contention import fair_waiting
from ...analysis.loading import Waiting, fetching
from ...analysis.processors import crowds
from ...analysis.shares import is_dispatched
from ...evidence.distributed import Prepared
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short
from ..rule import rule

QUEUED = 0.33  # of the time in which rank 0's workers wanted to run: then processors are what is missing
LONG = 0.002  # seconds of waiting for each batch: below that, sending it costs as much
STREAMS = "datasets."  # Hugging Face's, which accelerate can share out by their shards


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for process, prepared, loader in _dispatched(case):
        found = fair_waiting(case, process, loader)
        if not found.matters or found.waited < LONG * found.steps or _crowded(case, process, loader):
            continue
        yield case.finding(
            process,
            cause=_cause(prepared, loader, found),
            seen=list(_seen(case, process, prepared, loader, found)),
            remedy=Remedy(_remedy(prepared, loader)),
            where=loader.reads_at if is_users(loader.reads_at) else prepared.where,
            subject=Subject("loader", loader.name),
        )


def _dispatched(case: Case) -> Iterator[tuple[Process, Prepared, Loader]]:
    """Loaders of rank 0 whose batches are trained on by all."""
    for process in case.ranks:
        for one in process.prepared:
            loader = next((other for other in process.loaders if other.number == one.loader), None)
            if is_dispatched(one) and one.processes > 1 and loader is not None and loader.optimizer_steps:
                yield process, one, loader


def _crowded(case: Case, process: Process, loader: Loader) -> bool:
    near = [crowd for crowd in crowds(case) if crowd.host.node == process.node]
    mine = [crowd for crowd in near if any(use.process.pid in loader.pids for use in crowd.workers)]
    return any(crowd.queued >= QUEUED for crowd in mine)


def _batches(prepared: Prepared) -> int:
    """That rank 0 fetches for each step."""
    return 1 if prepared.split_batches else prepared.processes


def _each(prepared: Prepared, found: Waiting) -> tuple[float, float]:
    """Seconds that one training step waits for data, and that it takes besides."""
    steps = found.steps / _batches(prepared)
    return found.waited / steps, (found.looped - found.waited) / steps


def _cause(prepared: Prepared, loader: Loader, found: Waiting) -> str:
    count = _batches(prepared)
    what = f"{many(count, 'batch')}, one for each rank" if count > 1 else "a batch for all ranks"
    others = "the other one waits" if prepared.processes == 2 else "the others wait"
    return (
        f"Rank 0 loads for all {prepared.processes} ranks, and {others}: for every step it takes {what}, from "
        f"{loader.name}. Waiting for them is {percent(found.share)} of the time."
    )


def _seen(case: Case, process: Process, prepared: Prepared, loader: Loader, found: Waiting) -> Iterator[str]:
    waited, worked = _each(prepared, found)
    yield f"prepared at {short(prepared.where)}: DataLoaderDispatcher, which only rank 0 iterates over"
    yield (
        f"a step waits {duration(waited)} for data and takes {duration(worked)} besides, over "
        f"{many(round(found.steps / _batches(prepared)), 'step')}"
    )
    fetched = fetching(case, process, loader)
    count = sum(one.fetches.count for one in fetched)
    if count:
        by = f"{many(loader.num_workers, 'worker')} of rank 0" if loader.num_workers else "rank 0's own process"
        yield f"{by} loaded {many(count, 'batch')}, {duration(sum(one.fetches.total for one in fetched) / count)} each"
    if loader.num_workers:
        idle = f"{many(loader.num_workers, 'worker')} on each of the other ranks"
        yield f"{idle} prefetched batches that nobody takes"


def _remedy(prepared: Prepared, loader: Loader) -> str:
    alone = "DataLoaderConfiguration(dispatch_batches=False)"
    count = prepared.processes
    if not loader.iterable:
        return f"Use {alone}: every rank then loads its own batches, one for each step."
    if loader.dataset.startswith(STREAMS):
        return f"Use {alone}, with at least {count} shards: accelerate then gives every rank shards of its own."
    place = short(loader.reads_at) if is_users(loader.reads_at) else "the dataset"
    return (
        f"Let every rank read its own part: in {place} take only items rank, rank + {count}, rank + {2 * count} … "
        "(rank is accelerator.process_index; files of its own are better still), as many on every rank. Leave this "
        "loader out of prepare, and move batches to accelerator.device. dispatch_batches=False alone does not help: "
        "every rank would read everything."
    )
