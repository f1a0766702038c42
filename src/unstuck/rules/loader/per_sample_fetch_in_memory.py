"""Data that is in memory is fetched sample by sample, and that takes longer than training on it.

## It means
For each sample a DataLoader calls `dataset[i]`, which makes a small tensor, and then stacks these small tensors into a
batch. That is some microseconds per sample, hundreds of times per batch, to copy what one index operation could copy at
once. With a `TensorDataset` and a small model most of the time goes into it. Workers do not help: sending a batch costs
about as much (measured with batches of 512 rows: two workers were slower than none).

## Fix
Index the tensors once per batch: let a sampler yield whole batches of indices, with `batch_size=None`.
```python
# before
loader = DataLoader(dataset, batch_size=512, shuffle=True)

# after
sampler = BatchSampler(RandomSampler(dataset), 512, drop_last=False)
loader = DataLoader(dataset, sampler=sampler, batch_size=None)
```
Or, for a dataset of your own, fetch a batch at once:
```python
class Rows(Dataset):
    def __getitems__(self, indices):
        return self.inputs[indices], self.targets[indices]


loader = DataLoader(Rows(), batch_size=512, shuffle=True, collate_fn=lambda batch: batch)
```
Measured with batches of 512 rows of two tensors: batches came 5 times as fast in the first way and 7 times in the
second, on a busy machine.

## Check it yourself
```python
start = time.perf_counter()
for batch in loader:
    pass
print("loader", time.perf_counter() - start)

start = time.perf_counter()
for indices in torch.randperm(len(inputs)).split(512):
    batch = inputs[indices], targets[indices]
print("slices", time.perf_counter() - start)
```

## Not this, if
- single samples are slow, because they are decoded or read: [dataloader-bound](dataloader-bound.md)
- batches are made with one thread under torchrun: [omp1-by-torchrun](omp1-by-torchrun.md)

## How sure
Judged, for loaders without workers, from the CPU time that fetching one sample takes, collating included, and from the
share of the loop's time that goes into fetching. Certain of the times. It speaks when fetching takes half of the loop
or more, over three seconds and a hundred batches or more, of 32 samples at least: half of the samples take up to 50 µs,
and they take no more CPU time than that on average. Only copying is that quick.

## Seen in
- https://github.com/pytorch/pytorch/issues/106704: a DataLoader over data in memory is many times slower than indexing
  it.
- https://github.com/pytorch/pytorch/issues/4959: the same for `TensorDataset`, and the idea of indexing with a list.
- https://github.com/shenweichen/DeepCTR-Torch/issues/70: slicing instead of `TensorDataset`, about 4 times as fast.
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
SAMPLES = 32  # per batch: with fewer there is little to gain
DEFAULT = "default_collate"
QUICK = 50e-6  # seconds per sample: decoding anything takes more, and so does waiting for a disk


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
            cause=f"{percent(loop.share)} of the loop's time is assembling batches sample by sample from memory: "
            f"{loader.name}.",
            seen=[
                f"per step: {duration(loop.waited / loop.steps)} fetching, {duration(loader.bodies.mean)} training, "
                f"over {many(loop.steps, 'step')}",
                f"a batch is {_batch(load):.0f} samples of {duration(_each(load))} of CPU time each",
                f"{percent(_in_dataset(load))} of fetching is getting the samples, the rest mostly collating them",
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
    if loader.dataset.endswith(".TensorDataset"):
        own = "" if (loader.collate_fn or DEFAULT).endswith(DEFAULT) else ", and remove the collate_fn"
        return Remedy(
            f"Index the tensors once per batch: let the sampler yield whole batches of indices{own}",
            code=[f"sampler = {_batches(loader)}", "loader = DataLoader(dataset, sampler=sampler, batch_size=None)"],
        )
    where = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    return Remedy(
        f"Give the dataset{where} a `__getitems__` that returns a whole batch, and do not collate it again",
        code=[
            "def __getitems__(self, indices):",
            "    return self.inputs[indices], self.targets[indices]",
            "loader = DataLoader(dataset, ..., collate_fn=lambda batch: batch)",
        ],
    )


def _batches(loader: Loader) -> str:
    """A sampler that yields lists of indices; of another sampler than torch's simplest ones only its name is known."""
    if loader.batch_sampler and not loader.batch_sampler.startswith("torch.utils.data."):
        return "batch_sampler  # the one that the loader has now"
    drawn = (loader.sampler or "").rpartition(".")[2]
    inner = f"{drawn}(dataset)" if drawn in ("RandomSampler", "SequentialSampler") else "sampler"
    return f"BatchSampler({inner}, {loader.batch_size}, drop_last={loader.drop_last})"
