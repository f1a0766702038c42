"""accelerate crashes on a DataLoader with batch_size=None as soon as there is more than one process.

## It means

`DataLoader(dataset, batch_size=None)` turns automatic batching off: each item of the dataset is a batch already, as in
bucketed datasets. Such a loader has no batch sampler. accelerate shards a map-style dataset by wrapping the batch
sampler, so with several processes it wraps `None`. `prepare()` reports nothing; `len(loader)` and the first batch
raise. On one process nothing is wrapped, so the same script works there. The amount of data does not matter.

## Fix

Take one item at a time and unpack it. An item stays a whole batch, and now there is a batch sampler to shard:

```python
# before
loader = DataLoader(dataset, batch_size=None)

# after
from torch.utils.data import default_convert


def unpack(items):
    return default_convert(items[0])  # or your own collate_fn(items[0])


loader = DataLoader(dataset, batch_size=1, collate_fn=unpack)
loader = accelerator.prepare(loader)
```

Or keep the loader out of `prepare()`, shard it by rank and move the batches yourself:

```python
from accelerate.utils import send_to_device

sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=None, sampler=sampler)

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for batch in loader:
        batch = send_to_device(batch, accelerator.device)
```

## Check it yourself

```python
print(loader.batch_size, loader.batch_sampler)  # None None: accelerate cannot shard it
print(accelerator.num_processes)  # 1 hides the problem
```

## Not this, if

- the batches come from a batch sampler of your own and only their number differs between ranks:
  [accelerate-uneven-batch-sampler](accelerate-uneven-batch-sampler.md)
- the dataset is a stream (IterableDataset) and rank 0 fails while it joins batches:
  [accelerate-dispatch-shape-mismatch](accelerate-dispatch-shape-mismatch.md)

## How sure

Judged from the loader before and after `prepare` on every rank (batch_size, the batch sampler inside accelerate's
shard, whether the dataset is a stream, the number of processes), then from the exception: a TypeError about None out of
accelerate's own sampler (older versions raise an AttributeError inside `prepare`). Certain: this loader cannot be
iterated over on more than one process, so it also speaks before the first batch. Silent on one process, for streams and
with dispatch_batches=True, where accelerate needs no batch sampler, and after a run that ended normally without using
the loader.

## Seen in

- https://github.com/huggingface/accelerate/issues/882: `prepare` fails for a loader without a batch sampler
- https://github.com/huggingface/accelerate/issues/2392: `prepare` fails for `batch_size=None`
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.shares import will_fail
from ...evidence.distributed import Prepared
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process
from ...wording.text import many, said, short, who
from ..rule import rule

TEXTS = (
    "TypeError: 'NoneType' object is not iterable",
    "TypeError: object of type 'NoneType' has no len()",
    "AttributeError: 'NoneType' object has no attribute 'sampler'",
)
RAISED = ("TypeError", "AttributeError")  # the second: older versions, already while they prepare


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), predicts=True)
def check(case: Case) -> Iterator[Finding]:
    doomed = [(one, prepared) for one in case.mains for prepared in one.prepared if will_fail(prepared)]
    failed = [one for one in doomed if _by_it(one[0].failure)]
    for process, prepared in sorted(failed, key=_when)[:1] or _waiting_for_it(doomed):
        failure = process.failure if failed else None
        yield case.finding(
            process,
            cause=_cause(prepared, failure),
            seen=list(_seen(process, prepared, failure, len(failed))),
            remedy=_remedy(),
            alternatives=[_by_hand()],
            onset_s=failure.at if failure is not None else None,
            where=prepared.where,
            subject=Subject("loader", _loader(process, prepared)),
            symptom=(Symptom.CRASHED if failed else Symptom.WRONG).value,
        )


def _by_it(failure: Failure | None) -> bool:
    if failure is None or failure.type not in RAISED or "NoneType" not in failure.message:
        return False
    return any("accelerate/data_loader.py" in one.file for one in failure.frames[-3:])


def _when(one: tuple[Process, Prepared]) -> float:
    return one[0].failure.at if one[0].failure is not None else 0.0


def _waiting_for_it(doomed: list[tuple[Process, Prepared]]) -> list[tuple[Process, Prepared]]:
    """No rank has used the loader yet, and the run is still going."""
    return [one for one in doomed if one[0].alive and not one[0].failures][:1]


def _cause(prepared: Prepared, failure: Failure | None) -> str:
    what = f"accelerate cannot shard DataLoader(batch_size=None) over {many(prepared.processes, 'process')}"
    return f"The first batch will raise: {what}." if failure is None else f"{what}: it has no batch_sampler."


def _seen(process: Process, prepared: Prepared, failure: Failure | None, ranks: int) -> Iterator[str]:
    before, after = prepared.before, prepared.after
    held = "" if before.dataset_length is None else f", {many(before.dataset_length, 'item')} in the dataset"
    yield f"before prepare: {before.type.rpartition('.')[2]}, batch_size None, batch_sampler None{held}"
    if after is not None:
        shards = " around ".join([*(one.rpartition(".")[2] for one in after.shards), str(after.batch_sampler)])
        yield f"after prepare: {after.type.rpartition('.')[2]}, batch_sampler {shards}, on {prepared.device}"
    if after is not None and after.failed:
        yield f"len(loader) after prepare: {after.failed}"
    if failure is not None:
        place = user_line(failure)
        also = f" ({ranks} ranks raised it)" if ranks > 1 else ""
        yield f"{who(process)}: {said(failure)}, at {short(place)}{also}"


def _loader(process: Process, prepared: Prepared) -> str:
    dataset = next((one.dataset for one in process.loaders if one.number == prepared.loader), "")
    return f"DataLoader[{dataset.rpartition('.')[2]}]" if dataset else "DataLoader"


def _remedy() -> Remedy:
    return Remedy(
        "Use batch_size=1 and unpack the item in collate_fn: it stays a whole batch, and accelerate can shard it.",
        code=[
            "from torch.utils.data import default_convert",
            "def unpack(items):",
            "    return default_convert(items[0])  # or your own collate_fn(items[0])",
            "DataLoader(..., batch_size=1, collate_fn=unpack)",
        ],
    )


def _by_hand() -> Remedy:
    return Remedy(
        "Keep the loader out of prepare(), shard it by rank, and move each batch to the device yourself.",
        code=[
            "DataLoader(dataset, batch_size=None, sampler=DistributedSampler(dataset))",
            "batch = accelerate.utils.send_to_device(batch, accelerator.device)",
        ],
    )
