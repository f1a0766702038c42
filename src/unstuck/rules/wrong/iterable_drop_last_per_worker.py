"""drop_last drops the incomplete last batch of every worker: together a real part of the data.

## It means
With an IterableDataset every worker makes batches of its own stream, and `drop_last=True` applies to each: up to
batch_size - 1 samples are lost per worker and epoch, not per epoch. The more workers, the more is lost, and with short
streams it is everything. Where the order is the same in every epoch, the same samples are lost each time.

## Fix

```python
DataLoader(stream, batch_size=64, num_workers=4, drop_last=True)  # before: 4 incomplete batches are lost
```

```python
DataLoader(stream, batch_size=64, num_workers=4, drop_last=False)  # after: smaller batches, nothing lost
```

Or fewer workers, or a batch size that divides the samples of a worker. Or make the batches in the dataset, over all the
data, and pass `batch_size=None`.

## Check it yourself

```python
kept = sum(len(batch[0]) for batch in loader)
loader = DataLoader(stream, batch_size=64, num_workers=4, drop_last=False)
print(sum(len(batch[0]) for batch in loader) - kept, "samples are dropped")
```

## Not this, if
- no batch comes because the dataset is small: [empty-loader-drop-last](empty-loader-drop-last.md)
- some workers have far fewer samples: [uneven-file-assignment](uneven-file-assignment.md)
- len(loader) is wrong, but nothing is dropped: [iterable-length-lies](iterable-length-lies.md)

## How sure
Judged from how many samples each worker of an iterable dataset fetched, and how many of them it dropped at the end of
its stream because they did not fill a batch. Certain of the numbers: they are counted where the samples are dropped. It
speaks only when at least a whole batch is lost in an epoch, which one stream never loses, and at least one sample in
fifty.

## Seen in
- https://github.com/pytorch/pytorch/issues/33413: 10 workers with 100 samples each, batches of 128: no batch at all
- https://github.com/huggingface/finetrainers/issues/394: quotes torch's documentation on drop_last per worker
- https://github.com/facebookresearch/detectron2/pull/5035: 46 images, 3 workers, batches of 8: 4 batches instead of 5
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import each_once, fetched, used_loaders
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import many, percent
from ..rule import rule

SHARE = 0.02  # of the samples: over a long epoch a few incomplete batches make no difference


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in used_loaders(case))


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    if not loader.iterable or not loader.drop_last or not loader.batch_size or loader.num_workers < 2:
        return None
    streams = fetched(case, main, loader)
    # Epochs that the loop left early drop nothing: then the share comes out too small, never too large.
    lost = sum(one.dropped for one in streams) // max(loader.passes, 1)
    samples = sum(one.samples for one in streams) // max(loader.passes, 1)
    if lost < loader.batch_size or lost < SHARE * samples:
        return None
    return case.finding(
        main,
        cause=f"{loader.name} drops {_how_many(lost, samples)} per epoch: "
        "each worker discards its own incomplete last batch.",
        seen=list(_seen(loader, lost, samples, streams[-loader.num_workers :])),
        remedy=Remedy(f"Set {settings(loader, drop_last=False)}, if the model can take smaller batches"),
        alternatives=_others(loader, samples),
        where=loader.created if is_users(loader.created) else loader.reads_at,
        subject=Subject("loader", loader.name),
    )


def _how_many(lost: int, samples: int) -> str:
    return f"all {many(samples, 'sample')}" if lost == samples else f"{lost:,} of {many(samples, 'sample')}"


def _seen(loader: Loader, lost: int, samples: int, crew: list[Fetching]) -> Iterator[str]:
    parts = ", ".join(f"{one.dropped:,} of {one.samples:,}" for one in crew[:8])
    more = f" and {len(crew) - 8} more workers" if len(crew) > 8 else ""
    over = f" over {many(loader.passes, 'epoch')}" if loader.persistent_workers else " in one epoch"
    alone = samples % (loader.batch_size or 1)
    yield f"{percent(lost / samples)} of the data; one stream would lose {alone:,} of {samples:,}"
    yield f"dropped by each worker{over}: {parts}{more}"
    yield f"batch_size={loader.batch_size}, num_workers={loader.num_workers}, drop_last=True"
    if not loader.batches:
        yield f"no batch came in {many(loader.passes, 'epoch')}"


def _others(loader: Loader, samples: int) -> list[Remedy]:
    share = samples // loader.num_workers
    size = loader.batch_size or 1
    fitting = max((number for number in range(1, size + 1) if share % number == 0), default=1)
    batch = Remedy(f"Set {settings(loader, batch_size=fitting)}: it divides the {share:,} samples of a worker")
    single = Remedy(f"Set {settings(loader, num_workers=1)}: that loses {samples % size:,} of {samples:,} samples")
    return [*([batch] if fitting > size // 2 else []), single]
