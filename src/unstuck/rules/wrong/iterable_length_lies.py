"""len(loader) of an iterable dataset is not the number of batches that an epoch yields.

## It means
`__len__` of an IterableDataset is whatever its author wrote: rows where `__iter__` yields windows, all rows where some
are filtered out, samples where it yields whole batches, the share of one worker. torch believes it, and warns only when
there are more samples, not when there are fewer. Progress bars, learning-rate schedules and frameworks that ask for
len(loader) are off by that factor.

## Fix
Let `__len__` count what `__iter__` yields, in all workers together:

```python
class Windows(IterableDataset):  # before: rows, but __iter__ yields windows
    def __len__(self):
        return len(self.rows)
```

```python
class Windows(IterableDataset):  # after
    def __len__(self):
        return len(self.rows) // self.window
```

If that is not known beforehand, remove `__len__` and pass the number of steps to what needs it:

```python
scheduler = OneCycleLR(optimizer, max_lr=1e-3, total_steps=epochs * steps_per_epoch)
```

## Check it yourself

```python
print(len(loader), sum(1 for batch in loader))
```

## Not this, if
- every worker yields the whole dataset: [iterable-duplicated](iterable-duplicated.md)
- workers drop incomplete batches: [iterable-drop-last-per-worker](iterable-drop-last-per-worker.md)
- epochs are short since a resume: [resume-shortens-epochs](resume-shortens-epochs.md)
- the loop never ends: [epoch-never-ends](epoch-never-ends.md)

## How sure
Judged from the length that the loader gave when it was asked (`len(loader)`: a progress bar, a schedule, a framework),
and how many batches the epochs yielded that came to their end. Certain of both numbers. What torch's rounding explains
is left alone (each worker has an incomplete last batch of its own), and so is less than a twentieth, epochs that are
one rank's share of the length, resumed loaders, and epochs that the loop left early.

## Seen in
- https://github.com/pytorch/pytorch/pull/38925: why len(DataLoader) of an IterableDataset can only be an estimate
- https://github.com/pytorch/pytorch/pull/40344: sharding among workers makes len() wrong, and the warning appears
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import each_once, spare
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many, short
from ..rule import rule

TEXTS = (
    "Length of IterableDataset",
    "samples have been fetched",
    "Your `IterableDataset` has `__len__` defined.",
)
SHARE = 0.05  # of len(): a few samples that could not be read move no schedule


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in case.training_loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    length = loader.length
    if not loader.iterable or not length or not loader.ended or loader.resumed:
        return None
    yielded = [one.batches for one in loader.ended]
    if not all(_differs(one, length, loader, main.world or 1) for one in yielded):
        return None
    if not (max(yielded) < length or min(yielded) > length):
        return None
    return case.finding(
        main,
        cause=f"len(loader) says {many(length, 'batch')}, an epoch yields {yielded[-1]:,}: "
        "progress bars and schedules are wrong.",
        seen=list(_seen(loader, yielded)),
        remedy=_remedy(loader),
        alternatives=[
            Remedy(
                "Remove __len__ if the number is not known beforehand, and pass it to what needs it",
                code=[f"steps_per_epoch = {yielded[-1]}"],
            ),
        ],
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _differs(yielded: int, length: int, loader: Loader, world: int) -> bool:
    """By more than rounding, and not because this rank has its share of what counted for all of them."""
    allowed = max(spare(loader), SHARE * length)
    divided = world > 1 and abs(yielded - length / world) <= spare(loader) + 1
    return abs(yielded - length) > allowed and not divided


def _seen(loader: Loader, yielded: list[int]) -> Iterator[str]:
    length = loader.length or 0
    ends = ", ".join(f"{count:,}" for count in yielded[:6])
    yield f"batches of {many(len(yielded), 'whole epoch')}: {ends}{' …' if len(yielded) > 6 else ''}"
    if loader.batch_size:
        yield f"len(loader) comes from len(dataset) and batch_size={loader.batch_size}"
    factor = max(yielded[-1], length) / max(min(yielded[-1], length), 1)
    yield (
        f"off by a factor of {factor:.3g}: a progress bar never fills, a schedule never reaches its end"
        if yielded[-1] < length
        else f"off by a factor of {factor:.3g}: a progress bar runs over, a schedule ends too early"
    )
    yield f"loader: {loader.name}"


def _remedy(loader: Loader) -> Remedy:
    place = f" at {short(loader.reads_at)}" if is_users(loader.reads_at) else ""
    dataset = loader.dataset.rpartition(".")[2] or "the dataset"
    together = ", in all workers together" if loader.num_workers > 1 else ""
    unit = "samples" if loader.batch_size else "batches"
    return Remedy(f"Let {dataset}.__len__ return the number of {unit} that __iter__{place} yields{together}")
