"""Files are split unevenly, so one rank or worker runs out of data while the others still read.

## It means
`files[rank::world]` gives some ranks one file more than others, and `files[info.id::info.num_workers]` some workers.
With many small files that is nothing. With a few large ones it is a whole share: the rank that has less leaves the loop
while the others wait for it in the next collective, and the worker that has less leaves the others to load alone. In a
loop that repeats, the few files are trained on more often than the rest.

## Fix
Make the number of files a multiple of ranks times workers, many and small. Or split samples instead of files:

```python
def __iter__(self):  # before: 5 files over 2 ranks, 3 and 2
    for path in self.files[rank::world]:
        yield from read(path)
```

```python
def __iter__(self):  # after: every rank reads all files, and takes its samples
    samples = (sample for path in self.files for sample in read(path))
    yield from itertools.islice(samples, rank, None, world)
```

Until then, stop all ranks at the shortest:

```python
steps = torch.tensor(batches_of_this_rank, device=device)  # counted once, before training
torch.distributed.all_reduce(steps, op=torch.distributed.ReduceOp.MIN)
for batch in itertools.islice(loader, int(steps)):
    train_step(batch)
```

## Check it yourself

```python
print(rank, len(dataset.files), sum(1 for batch in loader))  # on every rank
```

## Not this, if
- ranks have equally many files and still different numbers of batches: [ddp-uneven-batches](ddp-uneven-batches.md)
- a rank or worker has no shard at all: [wds-empty-rank-hang](wds-empty-rank-hang.md),
  [workers-without-shards](workers-without-shards.md),
  [wds-fewer-shards-than-workers](wds-fewer-shards-than-workers.md)
- Hugging Face datasets split by node: [hf-split-by-node-uneven](hf-split-by-node-uneven.md)
- a worker ends early although it has as many files: [worker-finished-early](worker-finished-early.md)

## How sure
Judged from lists of paths among the dataset's attributes, and how many each rank has; or from one list that all have
and that the number of ranks, or of workers, does not divide. Then from the outcome: how many batches each rank got
before its epoch ended, or how often it repeated what it has, how many samples each worker yielded and when it ended.
Certain of the lists, and of which rank or worker ended first. It speaks where both agree: the one with fewer files had
fewer samples, or repeated them more often. How a common list was split is concluded from what each yielded. One file
more in many, loops inside of `Join`, and datasets that a sampler splits are left alone.

## Seen in
- https://github.com/huggingface/datasets/issues/6437: shards of different length give ranks different amounts of data
- https://github.com/pytorch/pytorch/issues/141069: unequal data of an IterableDataset ends in an NCCL timeout
- https://github.com/huggingface/datasets/issues/6623: 5 samples over 2 GPUs, one of them has nothing left
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import Crew, newest_crew, waiting
from ...analysis.passes import each_once
from ...analysis.ranks import listed, stand, told
from ...analysis.shares import Apart, Share, joins, shared_loaders, uneven
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent, short
from ..rule import rule
from ._file_assignment import FileSplit, among_ranks, among_workers

SHARE = 0.2  # of the batches of the rank that has most, by which another has fewer
ROUNDS = 1.5  # times as often as another: its samples count for so much more in the training
SECONDS = 3.0  # for which the longest went on: a short trial costs nothing


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("ddp-uneven-batches",))
def check(case: Case) -> Iterator[Finding]:
    apart = uneven(case)
    ranks = [_of_ranks(case, shares, apart) or _in_rounds(case, shares) for shares in shared_loaders(stand(case))]
    workers = [_of_workers(case, main, loader) for main in case.mains for loader in main.loaders]
    yield from each_once([*ranks, *workers])


def _of_ranks(case: Case, shares: list[Share], apart: Apart | None) -> Finding | None:
    if any(one.loader.sampling or joins(one) for one in shares):
        return None
    if apart is not None and any(one.loader == apart.one.loader for one in shares):
        few, more = apart.one, apart.behind
    else:
        few, more = min(shares, key=_had), _ended_apart(shares)
    if not more:
        return None
    for split in among_ranks(shares):
        if split.uneven and all(split.counts[few.rank] < split.counts[one.rank] for one in more):
            return _over_ranks(case, few, more, split, apart)
    return None


def _had(one: Share) -> int:
    return one.loader.batches


def _ended_apart(shares: list[Share]) -> list[Share]:
    """The ranks that went on longest, where all used all they had, each at its own pace, and one had far less."""
    last, least = max(shares, key=_had), min(map(_had, shares))
    through = all(one.stand.ended and not one.inside and not one.left for one in shares)
    if not through or waiting(last.loader).looped < SECONDS or least > (1 - SHARE) * _had(last):
        return []
    return [one for one in shares if _had(one) == _had(last)]


def _over_ranks(case: Case, few: Share, more: list[Share], split: FileSplit, apart: Apart | None) -> Finding:
    rest = listed(one.rank for one in more)
    where = more[0].stand.spot.partition(" at ")[0]
    then = f"{rest} waited in {where}" if apart is not None else f"{rest} went on without it"
    return case.finding(
        few.process,
        cause=f"Files are split unevenly: rank {few.rank} has {_share(split, few.rank)} and ran out; {then}.",
        seen=[*_ranks_seen(few, more, split, apart), f"loader: {few.loader.name}"],
        remedy=_written(few, split),
        alternatives=[_of_samples(few, split), _shortest()],
        rank=few.rank,
        onset_s=few.newest.ended if few.newest is not None else None,
        where=few.loader.created if is_users(few.loader.created) else few.loader.reads_at,
        subject=Subject("loader", few.loader.name),
    )


def _share(split: FileSplit, number: int) -> str:
    """2 of 5; none."""
    count = split.counts[number]
    return f"{count:,} of {split.files:,}" if count else "none"


def _in_rounds(case: Case, shares: list[Share]) -> Finding | None:
    """All ranks do as many steps, and the one that has fewer files repeats them more often."""
    if any(one.loader.sampling or joins(one) for one in shares):
        return None
    for split in among_ranks(shares):
        few = min(shares, key=lambda one: split.counts.get(one.rank, 0))
        most = max(shares, key=lambda one: split.counts.get(one.rank, 0))
        often, seldom = few.loader.passes, max(most.loader.passes, 1)
        if split.listed and split.least and often > 2 and min(often / seldom, split.most / split.least) >= ROUNDS:
            return _over_and_over(case, few, most, split)
    return None


def _over_and_over(case: Case, few: Share, most: Share, split: FileSplit) -> Finding:
    name = few.loader.name
    return case.finding(
        few.process,
        cause=f"Files are split unevenly: rank {few.rank} has {_share(split, few.rank)} and repeats them more often.",
        seen=[
            f"files in self.{split.name}: rank {str(split).replace(', ', ', rank ')}",
            *(f"rank {one.rank}: {many(one.loader.passes, 'loop')} over its files, {_all(one)}" for one in (few, most)),
            f"loader: {name}",
        ],
        remedy=_written(few, split),
        alternatives=[_of_samples(few, split)],
        rank=few.rank,
        where=few.loader.created if is_users(few.loader.created) else few.loader.reads_at,
        subject=Subject("loader", name),
        symptom=Symptom.WRONG.value,
    )


def _all(one: Share) -> str:
    return f"{many(one.loader.batches, 'batch')} in all"


def _ranks_seen(few: Share, more: list[Share], split: FileSplit, apart: Apart | None) -> Iterator[str]:
    whose = "" if split.listed else f" (the same {many(split.files, 'file')} on every rank, split among them)"
    yield f"files in self.{split.name}{whose}: rank {str(split).replace(', ', ', rank ')}"
    yield "; ".join(f"rank {one.rank}: {_batches(one)}" for one in (few, *more)[:8])
    if apart is not None:
        yield from told(apart.stands)


def _batches(one: Share) -> str:
    batches = many(one.loader.pass_batches, "batch")
    return f"{batches} of epoch {one.loader.passes:,}, {'and not at its end' if one.inside else 'then no more'}"


def _written(few: Share, split: FileSplit) -> Remedy:
    world, workers = len(split.counts), max(few.loader.num_workers, 1)
    times = "" if workers == 1 else f" times {workers} workers"
    return Remedy(f"Write the data as many small files, a multiple of {world * workers} ({world} ranks{times})")


def _of_samples(few: Share, split: FileSplit) -> Remedy:
    world = len(split.counts)
    if not few.loader.iterable:
        return Remedy(
            "Read all files on every rank, and let a DistributedSampler split the samples",
            code=["loader = DataLoader(dataset, sampler=DistributedSampler(dataset))"],
        )
    place = f" at {short(few.loader.reads_at)}" if is_users(few.loader.reads_at) else ""
    return Remedy(
        f"Read all files on every rank, and split samples in __iter__{place}",
        code=[f"yield from itertools.islice(samples, rank, None, {world})"],
    )


def _shortest() -> Remedy:
    return Remedy(
        "Stop all ranks at the shortest until then: each counts its batches once, before training",
        code=[
            "steps = torch.tensor(batches_of_this_rank, device=device)",
            "torch.distributed.all_reduce(steps, op=torch.distributed.ReduceOp.MIN)",
            "for batch in itertools.islice(loader, int(steps)):",
        ],
    )


def _of_workers(case: Case, main: Process, loader: Loader) -> Finding | None:
    crew = newest_crew(case, main, loader) if loader.files else None
    if crew is None or not crew.costs:
        return None
    for split in among_workers(crew, _elsewhere(case, crew)):
        if split.uneven:
            return _over_workers(case, crew, split)
    return None


def _elsewhere(case: Case, crew: Crew) -> list[Crew]:
    """The workers that other ranks have for the same loader."""
    others = [
        newest_crew(case, one, loader)
        for one in case.ranks
        for loader in one.loaders
        if one.pid != crew.main.pid and loader.created == crew.loader.created
    ]
    return [one for one in others if one is not None]


def _over_workers(case: Case, crew: Crew, split: FileSplit) -> Finding:
    first, last = crew.early[0], crew.last
    early, late = first.worker.worker or 0, last.worker.worker or 0
    alone = duration(crew.ended - crew.early[-1].ended)
    working = many(len(crew.streams) - len(crew.early), "worker")
    return case.finding(
        first.worker,
        cause=f"Files are split unevenly: worker {early} has {_share(split, early)} and ended early; "
        "the epoch then ran with fewer workers.",
        seen=[
            f"files in self.{split.name}, split as the samples are: worker {str(split).replace(', ', ', worker ')}",
            f"samples in epoch {crew.number}: {crew.totals}",
            f"the last {alone} of {duration(crew.lasted)} ran with {working}; worker {late} ended last",
            f"with even shares the same epoch takes {duration(crew.evenly)}",
            f"loader: {crew.loader.name}",
        ],
        remedy=Remedy(f"Write the data as many small files, a multiple of {len(crew.streams)} (the workers)"),
        alternatives=_workers_others(crew, split),
        onset_s=first.ended,
        where=crew.loader.reads_at if is_users(crew.loader.reads_at) else crew.loader.created,
        subject=Subject("loader", crew.loader.name),
    )


def _workers_others(crew: Crew, split: FileSplit) -> list[Remedy]:
    workers, own = len(crew.streams), sum(split.counts.values())
    fitting = max((number for number in range(1, workers + 1) if own % number == 0), default=1)
    place = f" at {short(crew.loader.reads_at)}" if is_users(crew.loader.reads_at) else ""
    saved = percent(1 - crew.evenly / crew.lasted)
    samples = Remedy(
        f"Let every worker read all files, and split samples in __iter__{place}: up to {saved} less time",
        code=[
            "info = torch.utils.data.get_worker_info()",
            "yield from itertools.islice(samples, info.id, None, info.num_workers)",
        ],
    )
    even = settings(crew.loader, num_workers=fitting)
    fewer = Remedy(f"Set {even}: that splits the files evenly, over fewer workers")
    return [samples, *([fewer] if 1 < fitting < workers else [])]
