"""Data that lies in memory is fetched sample by sample, and that takes longer than training on it.

## What it looks at
For loaders without workers: the processor time that fetching one sample takes, collating counted in, and what share of
the loop's time is spent on fetching.

## Why it happens
For each sample a DataLoader calls `dataset[i]`, which makes a small tensor, and then stacks these small tensors into a
batch. That is some microseconds for each sample, hundreds of them for a batch, to copy what one index operation could
copy at once. A `TensorDataset` in memory with a small model spends most of its time on it. Workers do not help: handing
a batch over costs about as much (measured with batches of 512 rows: two workers were slower than none).

## What to do
Fetch the batch as one. A sampler that gives whole batches, with `batch_size=None`, hands the list of indices to
`dataset[...]`, which tensors and arrays understand. Or give the dataset `__getitems__(indices)` that returns the
finished batch, and a `collate_fn` that leaves it as it is. Measured with batches of 512 rows of two tensors: batches
came 5 times as fast in the one way and 7 times in the other, on a busy machine.

## How sure it is
Certain of the times. It speaks when fetching takes half of the loop or more, over three seconds and a hundred batches
at least, of 32 samples or more: half of them come within 50 µs, and they take no more processor time than that on
average, collating counted in. Nothing but copying fits in there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.cpu_contention import fair_waiting
from ...analysis.loading import SECONDS, fetching
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...wording.text import duration, many, percent, short
from ..rule import rule

SHARE = 0.5  # of the loop: fetching is what the run does most
BATCHES = 100
SAMPLES = 32  # a batch: of fewer there is little to gain
QUICK = 50e-6  # seconds a sample: decoding anything takes more, and so does waiting for a disk


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.training_loaders:
        loads, loop = fetching(case, main, loader), fair_waiting(case, main, loader)
        if loader.num_workers or loader.iterable or len(loads) != 1 or not _quick(loads[0]):
            continue
        if loop.steps < BATCHES or loop.lasted < SECONDS or loop.share < SHARE:
            continue
        (load,) = loads
        yield case.finding(
            main,
            cause=f"{percent(loop.share)} of the loop's time goes into putting batches together from single samples: "
            f"{loader.name} fetches {_batch(load):.0f} samples one by one for each, though they lie in memory.",
            seen=[
                f"a batch takes {duration(loop.waited / loop.steps)} to fetch and {duration(loader.bodies.mean)} to "
                f"train on, over {many(loop.steps, 'step')}",
                f"a sample takes {duration(_each(load))} of processor time; {percent(_in_dataset(load))} of fetching "
                "is spent on getting samples one by one, the rest mostly on collating them",
            ],
            remedy=_remedy(loader),
            where=loader.created,
            subject=Subject("loader", loader.name),
        )


def _batch(load: Fetching) -> float:
    return load.sample_times.count / load.fetches.count if load.fetches.count else 0.0


def _each(load: Fetching) -> float:
    return load.cpu.mean / max(_batch(load), 1.0)


def _in_dataset(load: Fetching) -> float:
    return load.sample_times.total / load.fetches.total


def _quick(load: Fetching) -> bool:
    """Samples that were timed one by one: a dataset with `__getitems__` already fetches them together."""
    at_hand = load.cpu.count > 0 and load.sample_times.p50 <= QUICK
    return at_hand and _batch(load) >= SAMPLES and _each(load) <= QUICK


def _remedy(loader: Loader) -> Remedy:
    draw = "RandomSampler" if loader.shuffle else "SequentialSampler"
    drop = f", drop_last={loader.drop_last}"
    sampler = f"BatchSampler({draw}(dataset), {loader.batch_size}{drop})"
    if loader.dataset.endswith(".TensorDataset"):
        return Remedy(
            "Draw whole batches, and the tensors are indexed once for each: "
            f"DataLoader(dataset, sampler={sampler}, batch_size=None), with these names from torch.utils.data."
        )
    where = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    text = (
        f"Let the dataset{where} fetch a batch as one: give it `__getitems__(self, indices)` that indexes its arrays "
        "with the whole list and returns the finished batch, and pass a collate_fn that returns it unchanged."
    )
    return Remedy(text)
