"""Rank 0 loads the data of all ranks (accelerate's DataLoaderDispatcher) and cannot keep up.

## It means

For a stream (an IterableDataset), and with `dispatch_batches=True`, accelerate does not shard the data. Rank 0 fetches
one batch for every rank, joins them and broadcasts the result; each rank keeps its slice. So a step takes as long as
loading all these batches in one process, and gets slower with every rank you add, while the other ranks wait in the
broadcast. Workers start on those ranks too, and the batches they prefetch are thrown away.

## Fix

Let every rank read its own part of the stream, and keep that loader out of `prepare`:

```python
# before
loader = accelerator.prepare(DataLoader(stream, batch_size=8))


# after, in the dataset
def __iter__(self):
    for number, item in enumerate(self.items):
        if number % self.world == self.rank:  # files of its own per rank are better still
            yield item


# after, in the loop
loader = DataLoader(Stream(rank=accelerator.process_index, world=accelerator.num_processes), batch_size=8)
for batch in loader:
    batch = accelerate.utils.send_to_device(batch, accelerator.device)
```

Give every rank the same number of items, else the ranks deadlock at the end of the epoch.

`dispatch_batches=False` alone does not help a plain stream: every rank then reads all of it and keeps one batch in as
many as there are ranks. It helps for map-style datasets, and for Hugging Face streams with at least as many shards as
ranks:

```python
Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
```

## Check it yourself

```python
print(type(loader).__name__)  # after prepare(): DataLoaderDispatcher

started = time.perf_counter()  # the loader before prepare(), in one process
for _ in itertools.islice(loader_before, 50):
    pass
print((time.perf_counter() - started) / 50 * accelerator.num_processes, "s of loading per step")
```

## Not this, if

- one rank is slower than the others, and each loads its own data: [straggler-rank](straggler-rank.md)
- every rank loads its own batches and waits for them: [dataloader-bound](dataloader-bound.md)
- rank 0 crashes while it joins batches:
  [accelerate-dispatch-shape-mismatch](accelerate-dispatch-shape-mismatch.md)

## How sure

Judged from what came out of accelerate's `prepare`, and on rank 0 from how long the loop waited for batches against how
long it trained on them, how many batches it fetched for each step and what fetching one cost. Certain of which rank
loads and of the shares: they are measured over every step. It speaks from 30 % waiting on, in a loop of at least ten
batches and three seconds. Silent where rank 0's workers had to wait for CPU cores: then the machine is too small.

## Seen in

- https://github.com/huggingface/accelerate/issues/1866: a stream gets slower the more GPUs read it
- https://github.com/huggingface/accelerate/issues/2162: why streams are dispatched from one process by default
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

QUEUED = 0.33  # of the time in which rank 0's workers wanted to run: then CPU cores are what is missing
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
            cause=_cause(found),
            seen=list(_seen(case, process, prepared, loader, found)),
            remedy=_remedy(prepared, loader),
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
    """Seconds that one training step waits for data, and that the rest of it takes."""
    steps = found.steps / _batches(prepared)
    return found.waited / steps, (found.looped - found.waited) / steps


def _cause(found: Waiting) -> str:
    share = percent(found.share)
    return f"Only rank 0 loads data (accelerate DataLoaderDispatcher); {share} of each step is waiting for it."


def _seen(case: Case, process: Process, prepared: Prepared, loader: Loader, found: Waiting) -> Iterator[str]:
    waited, worked = _each(prepared, found)
    yield (
        f"per step: {duration(waited)} waiting for data, {duration(worked)} training, over "
        f"{many(round(found.steps / _batches(prepared)), 'step')}"
    )
    count = _batches(prepared)
    what = f"{many(count, 'batch')}, one for each rank" if count > 1 else "one batch for all ranks"
    yield f"for every step rank 0 loads {what}, from {loader.name}"
    fetched = fetching(case, process, loader)
    count = sum(one.fetches.count for one in fetched)
    if count:
        by = f"{many(loader.num_workers, 'worker')} of rank 0" if loader.num_workers else "rank 0's own process"
        yield f"{by}: {many(count, 'batch')}, {duration(sum(one.fetches.total for one in fetched) / count)} each"
    if loader.num_workers:
        idle = f"{many(loader.num_workers, 'worker')} on each of the other ranks"
        yield f"{idle} prefetched batches that are thrown away"


def _remedy(prepared: Prepared, loader: Loader) -> Remedy:
    alone = "Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False))"
    count = prepared.processes
    if not loader.iterable:
        return Remedy("Let every rank load its own batches.", code=[alone])
    if loader.dataset.startswith(STREAMS):
        return Remedy(
            f"Turn dispatching off, and give the stream at least {count} shards: each rank then gets its own.",
            code=[alone],
        )
    place = short(loader.reads_at) if is_users(loader.reads_at) else "the dataset"
    return Remedy(
        f"Let every rank read its own part in {place}, and keep the loader out of prepare() "
        "(dispatch_batches=False alone: every rank reads everything).",
        code=[
            f"itertools.islice(items, accelerator.process_index, None, {count})  # as many items on every rank",
            "batch = accelerate.utils.send_to_device(batch, accelerator.device)",
        ],
    )
