"""Evaluation counts some samples twice, because the data does not divide evenly among the ranks.

## It means
All ranks must get equally many samples, or they would wait for each other. So torch's DistributedSampler repeats some
at the end, and so does accelerate with `even_batches=True`, up to a full batch on every rank. In training that makes no
difference. In an evaluation these samples count twice: the result changes with the number of ranks.

## Fix
Evaluate with a sampler that repeats nothing, and sum up after the loop:

```python
sampler = DistributedSampler(dataset, shuffle=False)  # before: pads to a multiple of the ranks
for batch in DataLoader(dataset, batch_size=32, sampler=sampler):
    correct = count(model(batch))
    torch.distributed.all_reduce(correct)
    total += correct
```

```python
own = range(rank, len(dataset), world_size)  # after: every sample once
for batch in DataLoader(dataset, batch_size=32, sampler=own):
    total += count(model.module(batch))  # no collective in the loop: not the DDP wrapper either
torch.distributed.all_reduce(total)
```

With accelerate, `gather_for_metrics` takes the repeated samples out of the last batch:

```python
predictions, labels = accelerator.gather((predictions, labels))  # before
predictions, labels = accelerator.gather_for_metrics((predictions, labels))  # after
```

## Check it yourself

```python
sampler = loader.sampler
print(len(loader.dataset), "samples,", len(sampler) * sampler.num_replicas, "evaluated")
```

## Not this, if
- it is training: there the padding makes no difference
- ranks get different numbers of batches and hang: [ddp-uneven-batches](ddp-uneven-batches.md)
- the number of batches differs under accelerate:
  [accelerate-uneven-batch-sampler](accelerate-uneven-batch-sampler.md)

## How sure
Judged from epochs that evaluate: how many samples their dataset has, among how many ranks a DistributedSampler or
accelerate splits them, and which collectives followed before training went on. A sum over the ranks (`all_reduce`), or
a gathering of what each rank has already worked out, holds the repeated samples; so does accelerate's `gather`. Certain
of how many are repeated. That they are counted twice follows where results are summed over the ranks. Where predictions
are gathered sample by sample the repeated ones may have been taken out, and it stays silent; and so for training,
`drop_last=True`, `gather_for_metrics`, data that divides evenly, and less than one sample in a thousand.

## Seen in
- https://github.com/pytorch/pytorch/issues/25162: wrong validation accuracy because of DistributedSampler
- https://github.com/pytorch/pytorch/issues/22584: results that depend on the number of processes
- https://github.com/huggingface/accelerate/pull/540: `gather_for_metrics`, made for this
- https://github.com/roboflow/rf-detr/issues/1507: multi-GPU metrics count the padding
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...analysis.passes import Evaluated, each_once, evaluations, of_samples
from ...evidence.distributed import Collective, Prepared, Sampling
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many, percent, short
from ..rule import rule

SHARE = 0.001  # of the samples: results are quoted to a tenth of a per cent
DROPS = "gather_for_metrics"


class Padded(NamedTuple):
    """How many samples there are, how many of them are repeated, and by what."""

    samples: int
    ranks: int
    repeated: int
    by: str
    which: str
    accelerate: bool

    @property
    def matters(self) -> bool:
        return self.repeated > 0 and self.repeated >= SHARE * self.samples


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main in case.ranks for loader in main.loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    padded = _by_sampler(loader) or _by_accelerate(main, loader)
    if padded is None or not padded.matters or any(one.name == DROPS for one in main.spans):
        return None
    for one in evaluations(main, loader):
        counted = _counted(one, loader, padded)
        if counted:
            return _finding(case, main, loader, padded, one, counted)
    return None


def _by_sampler(loader: Loader) -> Padded | None:
    told = next((one for one in reversed(loader.sampling) if one.standard and one.dataset_length), None)
    if told is None or told.drop_last or told.replicas < 2:
        return None
    samples = told.dataset_length or 0
    repeated = told.samples * told.replicas - samples
    kind = told.kind.rpartition(".")[2]
    return Padded(samples, told.replicas, repeated, kind, _which(told, samples, repeated), accelerate=False)


def _which(told: Sampling, samples: int, repeated: int) -> str:
    """It begins again at the beginning."""
    if told.shuffle:
        return f"the first {repeated:,} of its shuffled order" if repeated > 1 else "the first of its shuffled order"
    if repeated > samples:
        return "every sample"
    return "sample 0" if repeated == 1 else f"samples 0 to {repeated - 1}"


def _by_accelerate(main: Process, loader: Loader) -> Padded | None:
    told = next((one for one in reversed(main.prepared) if one.loader == loader.number), None)
    if told is None or told.after is None or told.processes < 2 or not _evens_out(told):
        return None
    samples, size, length = told.before.dataset_length, told.before.batch_size, told.after.length
    if not samples or not size or not length:
        return None
    repeated = length * size * (1 if told.split_batches else told.processes) - samples
    which = f"the first {many(repeated, 'sample')} of its order"
    return Padded(samples, told.processes, repeated, "accelerate", which, accelerate=True)


def _evens_out(told: Prepared) -> bool:
    after = told.after
    evens = told.even_batches if after is None or after.even_batches is None else after.even_batches
    return bool(evens) and after is not None and bool(after.shards) and not after.drop_last


def _counted(one: Evaluated, loader: Loader, padded: Padded) -> list[Collective]:
    """What put the results of the ranks together, with the repeated samples in it."""
    share = -(-padded.samples // padded.ranks)
    one_by_one = [each for each in one.gathers if of_samples(each, loader.batch_size, share)]
    if padded.accelerate:
        return one.sums + one.gathers
    return [] if one_by_one else one.sums + one.gathers


def _finding(
    case: Case, main: Process, loader: Loader, padded: Padded, one: Evaluated, counted: list[Collective]
) -> Finding:
    line = next((each.where for each in counted if is_users(each.where)), None)
    remedy, *alternatives = _remedies(main, loader, padded, one, counted)
    return case.finding(
        main,
        rank=None,  # it is so on all of them
        pid=None,
        cause=f"{_cause(padded)}: {padded.by} pads to the same number on every rank.",
        seen=[*_seen(padded, one, counted), f"loader: {loader.name}"],
        remedy=remedy,
        alternatives=alternatives,
        onset_s=one.phase.at,
        where=line or loader.created,
        subject=Subject("loader", loader.name),
    )


def _cause(padded: Padded) -> str:
    if padded.repeated > padded.samples:
        return f"Evaluation counts {padded.samples + padded.repeated:,} samples instead of {padded.samples:,}"
    return f"Evaluation counts {padded.repeated:,} of {many(padded.samples, 'sample')} twice"


def _seen(padded: Padded, one: Evaluated, counted: list[Collective]) -> Iterator[str]:
    total = padded.samples + padded.repeated
    each = f", {total // padded.ranks:,} for each" if total % padded.ranks == 0 else ""
    yield f"{many(padded.samples, 'sample')} over {padded.ranks} ranks: padded to {total:,}{each}"
    yield f"repeated: {padded.which}; {percent(padded.repeated / total)} of the result"
    line = next((place.where for place in counted if is_users(place.where)), None)
    spot = f" at {short(line)}" if line is not None else ""
    yield f"after epoch {one.phase.number_of_pass}, {counted[0].operation}{spot} puts the results of all ranks together"
    if padded.accelerate:
        yield "accelerate pads because of even_batches=True, the default"


def _remedies(main: Process, loader: Loader, padded: Padded, one: Evaluated, counted: list[Collective]) -> list[Remedy]:
    if padded.accelerate:
        return [
            Remedy(
                "Gather with gather_for_metrics: it takes the repeated samples out of the last batch",
                code=["predictions, labels = accelerator.gather_for_metrics((predictions, labels))"],
            )
        ]
    created = f" at {short(loader.created)}" if is_users(loader.created) else ""
    inside = len(counted) >= max(one.phase.batches, 2)
    then = "sum up on each rank, and reduce after the loop" if inside else "no collective may be inside the loop"
    wrapped = any(each.kind == "DistributedDataParallel" for each in main.wrapped)
    return [
        Remedy(
            f"Evaluate without padding{created}; ranks then differ by one sample, so {then}",
            code=[
                "rank = torch.distributed.get_rank()",
                f"loader = DataLoader(dataset, sampler=range(rank, len(dataset), {padded.ranks}){_batches(loader)})",
                *(["output = model.module(batch)  # not the DDP wrapper, which synchronizes"] if wrapped else []),
            ],
        ),
        Remedy("Gather the prediction of every sample, and remove the repeated ones before counting"),
    ]


def _batches(loader: Loader) -> str:
    return f", batch_size={loader.batch_size}" if loader.batch_size else ""
