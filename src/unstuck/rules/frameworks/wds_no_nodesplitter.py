"""webdataset was not told how to split its shards over the ranks: it raises, or all read the same.

## It means
`WebDataset(...)` splits shards over the workers of one process by itself. Over ranks it does not guess: as soon as
there are two (WORLD_SIZE, or a process group), its default, `single_node_only`, raises at the first sample. A script
that ran on one GPU meets this on its first start with torchrun, Slurm or a Trainer with devices=2.

A `wds.DataPipeline` has no such guard: without `wds.split_by_node` every rank trains on everything, and more ranks make
an epoch no shorter. The same happens with `nodesplitter=None`, and with `split_by_node` in processes that do not know
of ranks: it asks the process group, which workers do not have, or RANK and WORLD_SIZE.

## Fix
Name the splitter, if there are at least as many shards as ranks times workers:

```python
# before
dataset = wds.WebDataset(urls)

# after
dataset = wds.WebDataset(urls, nodesplitter=wds.split_by_node)
```

Or let every rank draw shards at random; all then have epochs of the same length. `resampled=True` alone raises the same
error, and `nodesplitter=None` alone makes every rank read everything. `with_epoch(n)` on the dataset counts in each
worker, so an epoch of a rank is n × num_workers.

```python
dataset = wds.WebDataset(urls, resampled=True, nodesplitter=None).with_epoch(n)
```

In a pipeline of your own:

```python
dataset = wds.DataPipeline(
    wds.SimpleShardList(urls),
    wds.split_by_node,
    wds.split_by_worker,
    wds.tarfile_to_samples(),
)
```

## Check it yourself

```python
for number, sample in zip(range(5), dataset):
    print(rank, sample["__url__"], sample["__key__"])  # no two ranks may print the same
```

## Not this, if
- "No samples found in dataset" is raised: [wds-fewer-shards-than-workers](wds-fewer-shards-than-workers.md)
- a rank gets no shard, and the run hangs: [wds-empty-rank-hang](wds-empty-rank-hang.md)
- an iterable dataset of your own is read whole by every worker: [iterable-duplicated](iterable-duplicated.md)

## How sure
Judged from the exception that ended the training, raised by webdataset's own `single_node_only`: certain, because this
function does nothing else. Where nothing is raised, it speaks only of models in DistributedDataParallel whose ranks
were seen to begin with the same batches in the same order, out of shards that were not split.

## Seen in
- https://github.com/Lightning-AI/pytorch-lightning/issues/20149: the error with Lightning and DDP
- https://github.com/webdataset/webdataset/issues/406: the error with accelerate and `resampled=True`
- https://github.com/webdataset/webdataset/issues/178: the older words of the error
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed
from ...analysis.shards import SPLIT, Refused, Same, crew_size, refused, same_on_ranks, without
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import many, said
from ..rule import rule

TEXTS = (
    "you need to add an explicit nodesplitter to your input pipeline for multi-node training",
    "input pipeline needs to be reconfigured for multinode training",  # older versions of webdataset
)
RAISES = "single_node_only"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = refused(case, RAISES)
    if found is None:
        same = same_on_ranks(case)
        yield from [_same(case, same)] if same is not None else []
        return
    one, shards = found.raised, found.shards
    ranks, _ = crew_size(one.main, one.loader)
    where = shards.where if shards is not None else None
    over = f"{ranks} ranks" if ranks > 1 else "several ranks"
    remedy, *others = _remedies(found)
    yield case.finding(
        one.process,
        cause=f"The WebDataset has no nodesplitter to split {_count(found)} over {over}, so webdataset raised.",
        seen=list(_seen(found)),
        remedy=remedy,
        alternatives=others,
        saw=said(one.failure),
        onset_s=one.failure.at,
        where=where or (one.loader.created if one.loader is not None else None),
        subject=Subject("loader", one.loader.name) if one.loader is not None else None,
    )


def _same(case: Case, one: Same) -> Finding:
    ranks, shards = listed(each.rank or 0 for each in one.mains), one.shards
    why = f"the pipeline does not split its {many(shards.total or 0, 'shard')} over the ranks"
    if shards.splitter == SPLIT:
        why = f"{SPLIT} in the loading processes knows of no other rank"
    remedy, *others = _split(one)
    return case.finding(
        one.mains[0],
        cause=f"{ranks[:1].upper()}{ranks[1:]} train on the same samples: {why}.",
        seen=[
            f"the first {many(one.batches, 'batch')} of these ranks are the same, in the same order",
            f"each rank reads all {many(shards.total or 0, 'shard')}",
        ],
        remedy=remedy,
        alternatives=others,
        where=shards.where or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=Symptom.WRONG.value,
    )


def _split(one: Same) -> list[Remedy]:
    if one.shards.splitter == SPLIT:
        return [
            Remedy(
                "Set these in every rank before its loader is made, as torchrun does; workers have no process group to "
                "ask:",
                code=['os.environ["RANK"] = str(rank)', 'os.environ["WORLD_SIZE"] = str(world_size)'],
            )
        ]
    return [
        Remedy(
            "Split the shards over the ranks:",
            code=[
                "wds.split_by_node,  # in a DataPipeline: after the shard list, before wds.split_by_worker",
                "dataset = wds.WebDataset(urls, nodesplitter=wds.split_by_node)  # or in a WebDataset",
            ],
        ),
        Remedy(
            "Draw shards at random on every rank, with the same .with_epoch(n) on all:",
            code=["wds.ResampledShards(urls),  # instead of the shard list"],
        ),
    ]


def _count(found: Refused) -> str:
    total = found.shards.total if found.shards is not None else None
    return "shards" if total is None else many(total, "shard")


def _seen(found: Refused) -> Iterator[str]:
    one = found.raised
    yield f"raised in webdataset's {RAISES} by {one.by}"
    ranks, workers = crew_size(one.main, one.loader)
    if ranks > 1:
        yield f"{many(ranks, 'rank')} with {many(workers, 'process')} each that load"
    else:
        yield "webdataset sees more than one rank"


def _remedies(found: Refused) -> list[Remedy]:
    """With this run's numbers: where there are too few shards, splitting them would only move the error."""
    ranks, workers = crew_size(found.raised.main, found.raised.loader)
    total = found.shards.total if found.shards is not None else None
    count = f"n per worker: an epoch is {workers} × n" if workers > 1 else "the same n on every rank"
    drawn = [f"dataset = wds.WebDataset(urls, resampled=True, nodesplitter=None).with_epoch(n)  # {count}"]
    if found.shards is not None and found.shards.resampled:
        return [Remedy("Add nodesplitter=None: shards that are drawn at random need no splitting.", code=drawn)]
    split = ["dataset = wds.WebDataset(urls, nodesplitter=wds.split_by_node)"]
    draw = Remedy("Draw shards at random on every rank:", code=drawn)
    if total is None or ranks == 1:
        return [Remedy("Split the shards over the ranks:", code=split), draw]
    idle = without(total, ranks, workers)
    if idle:
        return [
            draw,
            Remedy(
                f"Write at least {ranks * workers:,} shards and split them: now {idle:,} would get none.", code=split
            ),
        ]
    found_each = _each(total, ranks)
    remedies = [Remedy(f"Split the shards, {found_each} of {total:,} for each rank:", code=split), draw]
    if total % (ranks * workers):
        even = "loader = loader.with_epoch(n)  # of a wds.WebLoader: n batches on every rank"
        uneven = Remedy(
            f"With a split, even out the epochs: {total:,} is no multiple of {ranks * workers}:", code=[even]
        )
        remedies.insert(1, uneven)
    return remedies


def _each(total: int, ranks: int) -> str:
    least, most = total // ranks, -(-total // ranks)
    return f"{least:,}" if least == most else f"{least:,} or {most:,}"
