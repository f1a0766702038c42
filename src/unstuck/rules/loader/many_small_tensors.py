"""Each batch is hundreds of small tensors, and a worker sends every one of them on its own.

## It means
Each tensor of a batch crosses from the worker to the main process as a piece of shared memory with a file descriptor of
its own, and a message to fetch it: some tens of microseconds on either side, however small the tensor is. Lists of
dicts of tensors, one for each object of each sample, make hundreds of them. Loading with workers is then slower than
without.

## Fix
Pack in the `collate_fn`: one tensor for each field, with the lengths to split it again.
```python
# before: one small tensor per sample
def collate(samples):
    return [torch.tensor(sample["boxes"]) for sample in samples]


# after: one tensor per field
def collate(samples):
    boxes = [torch.tensor(sample["boxes"]) for sample in samples]
    return torch.cat(boxes), [len(each) for each in boxes]


for boxes, lengths in loader:
    for each in boxes.split(lengths):
        ...
```
Or return numbers and numpy arrays: they travel inside the message itself. Or load without workers (`num_workers=0`):
nothing is sent then, which may be faster for samples that are cheap to load.

## Check it yourself
Count the tensors of one batch:
```python
from torch.utils._pytree import tree_leaves

batch = next(iter(loader))
print(sum(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(batch)))
```

## Not this, if
- descriptors run out because batches are kept: [fd-exhausted-tensors-kept](fd-exhausted-tensors-kept.md)
- few tensors, but each is a view of a large one: [huge-storage-slice](huge-storage-slice.md)
- the workers spend their time on loading, not on sending: [dataloader-bound](dataloader-bound.md)

## How sure
Judged from how many tensors a batch has that a worker sends, and how large they are; from how much of the workers' time
goes into sending rather than fetching, and how long the loop waits. Certain of the counts. It speaks from a hundred
tensors per batch on, if they are small on average, sending takes a fifth of the workers' work or more, and the loop
waits for data 30 % of its time.

## Seen in
- https://github.com/roboflow/rf-detr/pull/1399: 114 tensors per batch packed into 9 loads 1.25 to 1.67 times as fast.
- https://github.com/pytorch/pytorch/issues/123439: loading with workers is slow because batches hold many tensors in
  objects.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, handing, holds_up, typical, waiting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Handed, Loader
from ...wording.settings import settings
from ...wording.text import duration, many, percent, size
from ..rule import rule

MANY = 100  # tensors per batch: at some 20 µs on either side, that is what a fast step takes
SMALL = 64 << 10  # bytes each on average: of larger ones, copying takes longer than sending
HANDING = 0.2  # of the workers' work: else samples take long for another reason
DEFAULT = "default_collate"


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), applies_to_trials=True)
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.loaders_in_use:
        loads = fetching(case, main, loader)
        batch = typical(loads)
        if not loader.num_workers or batch is None or not _crumbs(batch) or not holds_up(case, loader):
            continue
        if handing(loads) < HANDING:
            continue
        yield case.finding(
            main,
            cause=f"Each batch of {loader.name} is {batch.tensors:,} tiny tensors, sent one by one{_sending(loads)}.",
            seen=list(_seen(loader, loads, batch)),
            remedy=_remedy(loader),
            alternatives=_others(loader),
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _crumbs(batch: Handed) -> bool:
    return batch.tensors >= MANY and batch.size <= SMALL * batch.tensors


def _seen(loader: Loader, loads: list[Fetching], batch: Handed) -> Iterator[str]:
    over, fetched = _sent_in(loads), sum(one.fetches.count for one in loads)
    if over is not None and fetched:
        yield (
            f"in a worker, per batch: {duration(sum(one.fetches.total for one in loads) / fetched)} fetching, "
            f"{duration(over)} sending ({duration(over / batch.tensors)} per tensor)"
        )
    yield f"a batch of {size(batch.size)} has {many(batch.tensors, 'tensor')} of {size(batch.size / batch.tensors)}"
    loop = waiting(loader)
    yield (
        f"per step: {duration(loop.waited / loop.steps)} waiting for data ({percent(loop.share)} of the time), "
        f"{duration(loader.bodies.mean)} training, over {many(loop.steps, 'step')}"
    )


def _sending(loads: list[Fetching]) -> str:
    over = _sent_in(loads)
    return "" if over is None else f": {duration(over)} per batch"


def _sent_in(loads: list[Fetching]) -> float | None:
    """Seconds that a worker takes to send a batch."""
    sent = [one.handovers for one in loads if one.handovers.count]
    return sum(one.total for one in sent) / sum(one.count for one in sent) if sent else None


def _remedy(loader: Loader) -> Remedy:
    own = loader.collate_fn is not None and not loader.collate_fn.endswith(DEFAULT)
    where = f"In {loader.collate_fn.rpartition('.')[2]}" if own and loader.collate_fn else "In a collate_fn"
    return Remedy(
        f"{where}, return one tensor per field of the batch, with the lengths to split it again",
        code=[
            "packed, lengths = torch.cat(tensors), [len(each) for each in tensors]",
            "packed.split(lengths)  # in the loop",
        ],
    )


def _others(loader: Loader) -> list[Remedy]:
    rest = " (and no persistent_workers)" if loader.persistent_workers else ""
    return [
        Remedy("Return numbers and numpy arrays instead of tensors: they are sent inside one message."),
        Remedy(f"Try it without workers{rest}: nothing is sent then", code=[settings(loader, num_workers=0)]),
    ]
