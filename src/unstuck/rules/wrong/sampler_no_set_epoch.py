"""Every epoch has the same sample order, because DistributedSampler.set_epoch() is never called.

## It means
`DistributedSampler(shuffle=True)` shuffles with a generator that it seeds again for every epoch with `seed + epoch`:
all ranks must get the same order without talking to each other. It does not count epochs itself. Unless `set_epoch` is
called, `epoch` remains 0, every epoch has the same order, and every rank sees the same part of the data forever. With
one rank it is the same: it sees all samples, in one order that never changes.

## Fix

```python
for epoch in range(epochs):  # before
    for batch in loader:
        ...
```

```python
for epoch in range(epochs):  # after: on every rank, before the loop over batches
    loader.sampler.set_epoch(epoch)
    for batch in loader:
        ...
```

A resumed run goes on with the epoch it resumes. accelerate: `loader.set_epoch(epoch)` of the prepared loader.
Lightning calls it by itself.

## Check it yourself

```python
for epoch in range(2):
    loader.sampler.set_epoch(epoch)  # without this line both are the same
    print(list(loader.sampler)[:10])
```

## Not this, if
- the order must be the same: `shuffle=False`, as in an evaluation
- set_epoch is called, on a dataset whose workers never see it: [persistent-stale-epoch](persistent-stale-epoch.md)
- only the augmentations repeat: [rng-duplicated](rng-duplicated.md)

## How sure
Judged from the epoch, seed and length of torch's DistributedSampler at the beginning of each epoch, also where it is
inside a batch sampler or behind what accelerate puts around it; and from which epochs trained, by the optimizer steps
in them. Certain: the order follows from these numbers. It speaks where at least two epochs trained and all of them had
the same numbers. Samplers that make an order of their own, `shuffle=False`, a new sampler with another seed and one
over other data are left alone, and so is a loop that only looks at a batch.

## Seen in
- https://github.com/pytorch/pytorch/issues/31771: "DistributedSampler can't shuffle the dataset"
- https://github.com/pytorch/pytorch/issues/11324: why `set_epoch` is needed at all
- https://github.com/lucidrains/DALLE-pytorch/pull/230: the call was missing
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import each_once, made_anew, order, trained_passes
from ...evidence.distributed import Sampling
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many, percent
from ..rule import rule

EPOCHS = 2  # that trained: in the first any order will do


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(
        _judge(case, main, loaders) for main in case.ranks or case.mains for loaders in made_anew(main)
    )


def _judge(case: Case, main: Process, loaders: list[Loader]) -> Finding | None:
    told = [pair for loader in loaders for pair in _trained(main, loader)]
    samplings = [one for _, one in told]
    if len(told) < EPOCHS or not all(_shuffles(one) for one in samplings) or len(set(map(order, samplings))) > 1:
        return None
    loader, first = told[0]
    return case.finding(
        main,
        rank=None,  # it is so on all of them
        pid=None,
        cause="Every epoch has the same sample order because "
        f"{_kind(first)}.set_epoch() is not called with a new number.",
        seen=[*_seen(loaders, samplings), f"loader: {loader.name}"],
        remedy=_remedy(loader, first),
        where=loader.created if is_users(loader.created) else loader.reads_at,
        subject=Subject("loader", loader.name),
    )


def _trained(main: Process, loader: Loader) -> list[tuple[Loader, Sampling]]:
    trained = trained_passes(main, loader)
    return [(loader, one) for one in loader.sampling if one.number in trained]


def _shuffles(one: Sampling) -> bool:
    """Into an order that is torch's own. A single sample has but one order."""
    return one.standard and one.shuffle and (one.dataset_length or 0) > 1


def _kind(one: Sampling) -> str:
    return one.kind.rpartition(".")[2]


def _all(count: int) -> str:
    return "both epochs" if count == 2 else f"all {count} epochs"


def _seen(loaders: list[Loader], told: list[Sampling]) -> Iterator[str]:
    first = told[0]
    epochs, seeds = zip(*((one.epoch, one.seed) for one in told), strict=True)
    again = "; the loader is made again for each, and its sampler with it" if len(loaders) > 1 else ""
    yield f"the sampler at the beginning of {_all(len(told))}: epoch {_listed(epochs)}; seed {_listed(seeds)}{again}"
    share = first.samples / (first.dataset_length or 1)
    if first.replicas == 1:
        yield f"the only rank gets all {many(first.samples, 'sample')}, in the same order in every epoch"
    else:
        yield (
            f"each of the {first.replicas} ranks gets {many(first.samples, 'sample')} of {first.dataset_length:,}, "
            f"the same {percent(share)} in every epoch"
        )
    passes = sum(one.passes for one in loaders)
    if passes > len(told):
        yield f"{many(passes, 'loop')} over it in all"


def _listed(values: tuple[int | None, ...]) -> str:
    return ", ".join(str(one) for one in values)


def _remedy(loader: Loader, one: Sampling) -> Remedy:
    inside = "sampler" if loader.sampler == one.kind else "batch_sampler.sampler"
    return Remedy(
        "Call set_epoch with the number of the epoch on every rank, before its loop; a resumed run goes on counting",
        code=[f"loader.{inside}.set_epoch(epoch)", "for batch in loader:"],
    )
