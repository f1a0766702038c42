"""Streams split by split_dataset_by_node have different lengths, and the ranks deadlock.

## It means
`split_dataset_by_node` assigns whole shards, where their number divides by that of the ranks, or else one sample in so
many, and nothing counts what comes out in the end. Shards have different sizes, and a `filter()` or a packing `map()`
after the split leaves more on one rank than on another. A stream has no length, so no sampler can pad it. The shorter
rank goes on, and the others wait for it in the next backward.

## Fix
Give every rank the same number of steps. Repeat the loader endlessly, made once before the epochs, and count:

```python
# before
for epoch in range(epochs):
    for batch in loader:
        train(batch)

# after
endless = itertools.chain.from_iterable(itertools.repeat(loader))
for epoch in range(epochs):
    for batch in itertools.islice(endless, steps):  # steps: the same number on every rank
        train(batch)
```

Or let ranks that are done shadow the others. This is for DistributedDataParallel, not for FSDP:

```python
from torch.distributed.algorithms.join import Join

with Join([model]):
    for batch in loader:
        train(batch)
```

With Lightning: `Trainer(limit_train_batches=steps)`; with transformers: `TrainingArguments(max_steps=steps)`.

## Check it yourself

```python
print("rank", rank, sum(1 for _ in split_dataset_by_node(dataset, rank=rank, world_size=world)))
```

All ranks have to print the same number.

## Not this, if
- the dataset has a length and a sampler: [ddp-uneven-batches](ddp-uneven-batches.md)
- a rank has no shard at all and never gets a batch: [rank-without-row-groups](rank-without-row-groups.md)
- the shards are webdataset's: [wds-empty-rank-hang](wds-empty-rank-hang.md)
- every rank reads files of its own, without this function: [uneven-file-assignment](uneven-file-assignment.md)

## How sure
Judged from how many batches each rank got from the same loader over a stream of Hugging Face datasets, which rank
reached the end of its epoch while others wait in a collective with a batch that it never had, how the stream was split,
and which of its steps drop samples. Certain where a rank waits with a batch that the other never had, and both read a
stream that was split by node. Loops inside `Join`, and loops that stop at a number of steps, do not block and stay
unmentioned.

## Seen in
- https://github.com/huggingface/datasets/issues/6437: ranks get different numbers of examples; solved with `Join`
- https://github.com/huggingface/datasets/issues/6623: streaming on several nodes, and a loop that asks all ranks first
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import DATASETS, fetching, streams_of
from ...analysis.ranks import told
from ...analysis.shares import Apart, Share, uneven
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Shards
from ...wording.settings import in_words_of
from ...wording.text import many
from ..rule import Level, rule

DROPS = ("filter", "map", "take", "skip")  # steps after which a rank may have more or fewer samples than another
DDP = "DistributedDataParallel"


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("uneven-file-assignment",),
)
def check(case: Case) -> Iterator[Finding]:
    apart = uneven(case)
    if apart is None:
        return
    streams = {one.rank: found for one in (apart.one, *apart.behind) if (found := _split(case, one)) is not None}
    if apart.one.rank in streams and apart.first.rank in streams:
        yield _found(case, apart, streams)


def _split(case: Case, one: Share) -> Shards | None:
    known = streams_of(case, one.process, one.loader, DATASETS)
    return next((each for each in reversed(known) if each.splitter and (each.ranks or 1) > 1), None)


def _found(case: Case, apart: Apart, streams: dict[int, Shards]) -> Finding:
    few, first = apart.one, apart.first
    died = all(one.stand.death is not None for one in apart.behind)
    ended = f"rank {few.rank}'s stream ended {_after(few.loader)}"
    others = f"rank {first.rank}" if len(apart.behind) == 1 else f"{len(apart.behind)} ranks"
    waits = "has more and waits" if len(apart.behind) == 1 else "have more and wait"
    cause = f"Deadlock: {ended}; {others} {waits} for it forever."
    if died:
        cause = f"R{ended[1:]}; {others} had more and crashed waiting for it."
    remedy, *ways = _remedies(apart)
    return case.finding(
        few.stand,
        cause=cause,
        seen=[*_seen(case, apart, streams), *told(apart.stands)],
        remedy=remedy,
        alternatives=ways,
        rank=few.rank,
        onset_s=few.newest.ended if few.newest is not None else None,
        where=few.loader.created,
        subject=Subject("loader", few.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _after(loader: Loader) -> str:
    batches = f"after {many(loader.pass_batches, 'batch')}" if loader.pass_batches else "without a batch"
    return f"{batches} of epoch {loader.passes}" if loader.passes > 1 else batches


def _seen(case: Case, apart: Apart, streams: dict[int, Shards]) -> Iterator[str]:
    for share in (apart.one, *apart.behind)[:4]:
        stream, loader = streams.get(share.rank), share.loader
        samples = sum(each.samples for each in fetching(case, share.process, loader))
        total = f" ({loader.batches:,} in all)" if loader.passes > 1 else ""
        source = "" if stream is None else f" from {_part(stream)}"
        state = "in the middle of the epoch" if share.inside else "epoch ended"
        batches = f"{many(loader.pass_batches, 'batch')}{total}"
        yield f"rank {share.rank}: {batches}, {many(samples, 'sample')}{source}, {state}"
    stream = streams[apart.one.rank]
    steps = list(dict.fromkeys(step for step in stream.steps if step in DROPS))
    drops = f"; {' and '.join(steps)} may drop samples after that" if steps else ""
    yield f"{apart.one.loader.name}: split by {stream.splitter}{drops}"


def _part(stream: Shards) -> str:
    if stream.of_rank == stream.total:
        return f"one sample in {stream.ranks} of {many(stream.total or 0, 'shard')}"
    return f"{stream.of_rank} of {many(stream.total or 0, 'shard')}"


def _remedies(apart: Apart) -> list[Remedy]:
    few = apart.one
    least = max(few.loader.pass_batches, 1)
    most = max(least, *(share.loader.pass_batches for share in apart.behind))
    trainer = in_words_of(
        few.process,
        "",
        lightning=f"Trainer(limit_train_batches={least})",
        transformers=f"TrainingArguments(max_steps={max(few.process.optimizer_steps, 1)})",
    )
    if trainer:
        return [Remedy("Stop every rank after the same number of steps; the shortest had these:", code=[trainer])]
    remedies = [
        Remedy(
            "Repeat the loader and stop every rank after the same number of batches:",
            code=[
                "endless = itertools.chain.from_iterable(itertools.repeat(loader))  # once, before the epochs",
                f"for batch in itertools.islice(endless, {most}):  # any number that is the same on all ranks",
            ],
        ),
        Remedy(
            "Stop every rank where the shortest ends:",
            code=[f"for batch in itertools.islice(loader, {least}):"],
        ),
    ]
    if any(model.kind == DDP for model in few.process.wrapped):
        code = "with Join([model]):  # around the loop; from torch.distributed.algorithms.join"
        remedies.append(Remedy("Let ranks that are done shadow the others (DDP only, not FSDP):", code=[code]))
    return remedies
