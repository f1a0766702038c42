"""Batches are small views of large tensors, and workers send the large tensors to the main process.

## It means
A tensor travels from a worker to the main process as a piece of shared memory, and that piece is the tensor's whole
storage. A slice, a crop, a row or `x[0]` is a view: it shows little and keeps all. Default collating copies the
samples, and so hides it. With `batch_size=None`, an own `collate_fn` or samples kept in lists, the view itself is sent,
and the storage behind it is first copied into /dev/shm.

## Fix
Clone what leaves the dataset or the `collate_fn`: then only the copy is sent.
```python
# before
return scan[:, top : top + 64, left : left + 64]
# after
return scan[:, top : top + 64, left : left + 64].clone()
```

## Check it yourself
Compare what a tensor shows with the storage behind it:
```python
sample = dataset[0]
print(sample.nbytes, sample.untyped_storage().nbytes())
```
Watch /dev/shm while batches are loaded:
```sh
df -h /dev/shm
```

## Not this, if
- a batch consists of hundreds of tensors: [many-small-tensors](many-small-tensors.md)
- loading itself is slow: [dataloader-bound](dataloader-bound.md)
- /dev/shm runs full: [shm-exhausted](shm-exhausted.md)

## How sure
Judged from batches as workers have made them: the bytes that their tensors show against the bytes of the memory they
are views of. Then from how much of the workers' work goes into sending batches, and how long the loop waits. Certain of
the sizes. It speaks when the memory behind a batch is at least four times what the batch shows and 1 MiB larger,
sending takes a fifth of the workers' work or more, and the loop waits for 30 % of its time.

## Seen in
- https://github.com/pytorch/pytorch/issues/65604: pickling a slice pickles the entire tensor; `.clone()` does not.
- https://github.com/embeddings-benchmark/mteb/pull/4747: views of decoded videos sent by workers filled /dev/shm;
  clones of the selected frames did not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, handing, holds_up, typical, waiting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Handed, Loader
from ...wording.text import duration, many, percent, size
from ..rule import rule

TIMES = 4  # memory over what is shown: below that, cloning gains less than it costs in thought
MUCH = 1 << 20  # bytes: a copy of less takes less than sending takes anyway
HANDING = 0.2  # of the workers' work: else samples take long for another reason


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    outranks=("many-small-tensors",),
    applies_to_trials=True,
)
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.loaders_in_use:
        loads = fetching(case, main, loader)
        batch = typical(loads)
        if not loader.num_workers or batch is None or not _views(batch) or not holds_up(case, loader):
            continue
        if handing(loads) < HANDING:
            continue
        yield case.finding(
            main,
            cause=f"Workers send {size(batch.storage)} for each batch of {size(batch.size)}: its tensors are views, "
            "and whole storages are sent.",
            seen=list(_seen(loader, loads, batch)),
            remedy=_remedy(loader),
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _views(batch: Handed) -> bool:
    return batch.storage >= TIMES * batch.size and batch.storage - batch.size >= MUCH


def _seen(loader: Loader, loads: list[Fetching], batch: Handed) -> Iterator[str]:
    handed = [one.handovers for one in loads if one.handovers.count]
    count = sum(one.count for one in handed)
    fetched = sum(one.fetches.count for one in loads)
    if count and fetched:
        yield (
            f"sending a batch takes a worker {duration(sum(one.total for one in handed) / count)}, loading it "
            f"{duration(sum(one.fetches.total for one in loads) / fetched)}"
        )
    loop = waiting(loader)
    yield f"the loop waits for data {percent(loop.share)} of the time, {duration(loop.waited / loop.steps)} per step"
    looked = sum(len(one.handed) for one in loads)
    yield f"{many(batch.tensors, 'tensor')} per batch; {many(looked, 'batch')} measured"
    yield f"loader: {loader.name}"


def _remedy(loader: Loader) -> Remedy:
    reads = loader.reads_at
    if reads is not None and is_users(reads):
        return Remedy(f"Return a clone from {reads.function}: then only the copy is sent", code=["return view.clone()"])
    collate = loader.collate_fn.rpartition(".")[2] if loader.collate_fn else "the collate_fn"
    return Remedy(f"Clone every view that the dataset or {collate} returns", code=["view.clone()"])
