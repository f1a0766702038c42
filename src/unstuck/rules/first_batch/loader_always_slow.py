"""Every batch takes as long as the first: it is not a warm-up, the loader is that slow.

## It means

A first batch may take long for good reasons, and people wait for it to pass. It does not pass where reading and
tokenising cost more than training with every batch: one thread, one document at a time, slow storage, or documents that
are far shorter than a batch needs.

## Fix

If it is the tokenizer, call it once per batch of documents instead of once per document:

```python
ids = [tokenizer.encode(text).ids for text in texts]  # before: one core
ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]  # after: several cores
```

Or tokenise once, before the training, and read tokens from disk:

```python
tokens = numpy.memmap("train.bin", dtype=numpy.uint16, mode="r")
```

Or load in a worker while the GPU trains. A generator becomes a dataset for that; one worker, because each worker would
run the whole generator:

```python
class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        return batches()


loader = DataLoader(Batches(), batch_size=None, num_workers=1)
```

## Check it yourself

Time ten batches without any training:

```python
import itertools, time

began = time.perf_counter()
for batch in itertools.islice(loader, 10):
    print(f"{time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
```

## Not this, if

- only the first batch takes long: [first-batch-slow](first-batch-slow.md)
- a DataLoader has run for ten batches or more: [dataloader-bound](dataloader-bound.md)
- a shuffle buffer is filled before every epoch: [shuffle-buffer-large](shuffle-buffer-large.md)
- no batch comes at all: [loop-without-batch](loop-without-batch.md)

## How sure

It is judged from how long the first and later batches took to load; for a plain generator, from the time between
optimizer steps and how much of it went into reading and tokenising. It is certain of the seconds. It speaks from three
batches and five seconds on, when later batches take at least half a second and, times the number of workers, at least
half as long as the first, and most of the loop is spent waiting. From ten batches and five seconds on, a DataLoader is
left to dataloader-bound. Time in which other programs had the CPU cores is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.cpu_contention import fair_first
from ...analysis.first_batch import Feeding, First, first_batch, so_far
from ...analysis.loading import waiting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Source
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent, short
from ..rule import Level, rule
from ._tokenizing import BEFOREHAND, in_batches, more_threads, one_by_one

OTHERS = 2  # batches after the first
SECONDS = 5.0  # in all
EACH = 0.5  # seconds per batch: for less, dataloader-bound judges by shares
AS_SLOW = 0.5  # of the first batch, which has a start-up of its own
SHARE = 0.5  # of the loop
BATCHES = 10  # from here on, dataloader-bound speaks
FULL = 0.5  # of a batch's time in one kind of call


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.ECHO,
    outranks=("dataloader-bound",),
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        first = first_batch(case, main)
        if first is None or not _always(first, fair_first(case, main, first)) or _is_for_another(first):
            continue
        source = _most(first.fed)
        loader = first.loader
        where = source.where if source is not None else None
        if where is None and loader is not None:
            where = loader.reads_at if is_users(loader.reads_at) else loader.created
        remedy, *alternatives = _options(case, main, first)
        yield case.finding(
            main,
            cause=_cause(first),
            seen=list(_seen(case, main, first)),
            remedy=remedy,
            alternatives=alternatives,
            where=where,
            subject=Subject("loader", loader.name if loader is not None else "a generator"),
        )


def _always(first: First, fair: First) -> bool:
    """Without the time in which other programs had the CPU cores."""
    if first.later is None or not first.came or first.others < OTHERS or (fair.later or 0.0) < EACH:
        return False
    total = first.seconds + first.later * first.others
    return (fair.each or 0.0) >= AS_SLOW * fair.seconds and fair.later_share >= SHARE and total >= SECONDS


def _is_for_another(first: First) -> bool:
    loader = first.loader
    if loader is None:
        return False
    if first.others < BATCHES:
        return loader.num_workers > 0 and not _is_sure(loader)
    trained = waiting(loader)
    known = loader.optimizer_steps and trained.steps >= BATCHES and trained.looped >= SECONDS
    return bool(known) or not first.fed.sources


def _is_sure(loader: Loader) -> bool:
    """With workers, some batches come at once: each wait must be known. And there must be a training that waits."""
    return loader.optimizer_steps > 0 and len(loader.recent_waits) >= OTHERS


def _most(fed: Feeding) -> Source | None:
    return max((*fed.tokenizers, *fed.readers), key=lambda source: source.calls.total, default=None)


def _spent(first: First) -> float:
    return first.seconds + (first.later or 0) * first.others


def _fills(first: First) -> Source | None:
    """The kind of call that most of a batch's time goes into."""
    source = _most(first.fed)
    return source if source is not None and source.calls.total >= FULL * _spent(first) else None


def _cause(first: First) -> str:
    source = _fills(first)
    if source is None:
        most = f"{percent(min(first.later_share, 1.0))} of the loop is waiting for data"
    else:
        at = f" ({short(source.where)})" if source.where is not None else ""
        most = f"{percent(min(source.calls.total / _spent(first), 1.0))} of it in {source.name}{at}"
    return f"Not a warm-up: every batch takes about {duration(first.later or 0)}, {most}."


def _seen(case: Case, main: Process, first: First) -> Iterator[str]:
    batches = first.others + 1
    later = f"{many(first.others, 'later batch')}: {duration(first.later or 0)} each on average"
    yield f"first batch: {duration(first.seconds)}; {later}"
    if first.loader is not None:
        waited, trained = first.loader.waits.mean, first.loader.bodies.mean
        yield f"per batch: {duration(waited)} waiting for data, {duration(trained)} training"
        yield f"loader: {first.loader.name}"
    else:
        yield f"{percent(min(first.later_share, 1.0))} of the loop is getting data from a generator (no DataLoader)"
    if first.fed.sources:
        yield so_far(case, main)
    for source in (*first.fed.readers, *first.fed.tokenizers):
        if source.items:
            at = f" ({short(source.where)})" if source.where is not None else ""
            calls = f"{many(source.calls.count, 'call')}, {duration(source.calls.total)} in all"
            yield f"{source.name}{at}: {calls}, {duration(source.calls.total / batches)} per batch"


def _options(case: Case, main: Process, first: First) -> Iterator[Remedy]:
    host = case.host_of(main)
    cpus = host.cpus if host is not None else 0
    source = _fills(first)
    if source is None:
        yield _in_workers(first)
        most = _most(first.fed)
        at = f": begin at {short(most.where)}" if most is not None and most.where is not None else ""
        yield Remedy(f"Prepare the samples once, before training, and only read them in the training{at}")
        return
    if source.kind == "rows":
        yield Remedy("Read only the columns that are used, in larger row groups")
        yield Remedy("Read from a disk of this machine, if these files are on network storage")
    else:
        if one_by_one(source):
            yield in_batches(source, cpus)
        elif source.threads is not None and source.threads < cpus:
            yield more_threads(source, cpus)
        yield BEFOREHAND
    yield _in_workers(first)


def _in_workers(first: First) -> Remedy:
    loader = first.loader
    if loader is None:
        return Remedy(
            "Load in a DataLoader worker while the GPU trains: make the generator an IterableDataset",
            code=["loader = DataLoader(dataset, batch_size=None, num_workers=1)"],
        )
    if loader.num_workers:
        return Remedy(f"Use more than {many(loader.num_workers, 'worker')}, if there are CPU cores and memory for them")
    return Remedy("Load in a worker while the GPU trains", code=[settings(loader, num_workers=1)])
