"""Every worker iterates over the whole stream, so each sample is trained on once for every worker.

## It means
Every worker has a copy of an IterableDataset and runs its whole `__iter__`. torch does not split it among them: the
dataset has to ask `get_worker_info()` and take a share. The loss looks good, because the data repeats; an epoch takes
as many times longer as there are workers, and the model sees no more than before.

## Fix

```python
def __iter__(self):  # before: every worker reads everything
    for path in self.files:
        yield from read(path)
```

```python
def __iter__(self):  # after: every n-th file of n workers
    info = torch.utils.data.get_worker_info()
    number, count = (info.id, info.num_workers) if info else (0, 1)
    for path in self.files[number::count]:
        yield from read(path)
```

With several ranks, split by ranks as well, unless the files are split among them already:

```python
number = torch.distributed.get_rank() * count + number
count = torch.distributed.get_world_size() * count
```

Where there are too few files, split samples: `itertools.islice(samples, number, None, count)`. With `num_workers=1` or
0 every sample comes once.

## Check it yourself

```python
alone = sum(1 for batch in DataLoader(dataset, batch_size=8))
four = sum(1 for batch in DataLoader(dataset, batch_size=8, num_workers=4))
print(alone, four)  # four times as many? Every worker reads everything
```

## Not this, if
- the loop never ends at all: [epoch-never-ends](epoch-never-ends.md)
- only len(loader) is wrong: [iterable-length-lies](iterable-length-lies.md)
- a WebDataset is not split among ranks: [wds-no-nodesplitter](wds-no-nodesplitter.md)
- the samples differ, and only their augmentation repeats: [rng-duplicated](rng-duplicated.md)

## How sure
Judged from digests of the first batches that each worker sent. Workers of one loader that sent the same batches, in the
same order, have the same samples. Where the loader has a length, also from how many batches an epoch yielded: if it is
that length once for every worker, each worker has read all of it. Certain where the contents are the same: at least two
batches, all different from each other, in the same order. By length alone it is certain that every worker yields as
much as len() says for all, not that the samples are the same ones: they may be drawn at random. A few batches over and
over, constant data, and epochs as long as len() says are left alone.

## Seen in
- https://github.com/huggingface/datasets/issues/3423: streaming data repeated once for every worker
- https://github.com/pytorch/pytorch/issues/30599: 4 workers yield 20 batches of a dataset that has 5
- https://github.com/vahidk/tfrecord/issues/78: with 4 workers the data is repeated 4 times
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import crews, each_once, fetched, names, part, spare
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import many, short
from ..rule import rule

BATCHES = 2  # in the same order: one batch may be the same by chance, such as one that is all padding


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("iterable-length-lies",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in case.loaders_in_use)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    if not loader.iterable or loader.num_workers < 2 or _as_announced(loader):
        return None
    twins, batches = _twins(case, main, loader)
    if twins:
        cause = _same(loader, len(twins))
        seen = [f"{names(twins)} sent the same batches: the first {batches} of each have the same content"]
    elif _all_by_each(loader):
        cause = _whole(loader)
        seen = []
    else:
        return None
    return case.finding(
        main,
        cause=cause,
        seen=[*seen, *_counts(case, main, loader, len(twins) or loader.num_workers), f"loader: {loader.name}"],
        remedy=_remedy(main, loader),
        alternatives=[
            _of_files(main),
            Remedy(f"Until then set {settings(loader, num_workers=1)}: every sample then comes once"),
        ],
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _as_announced(loader: Loader) -> bool:
    """Epochs are as long as len() says: the workers share the samples, however alike these are."""
    if not loader.length or not loader.ended:
        return False
    return all(one.batches <= loader.length + spare(loader) for one in loader.ended)


def _twins(case: Case, main: Process, loader: Loader) -> tuple[list[Process], int]:
    """The most workers of a crew that began an epoch with the same batches, and how many batches those were."""
    best: tuple[list[Process], int] = ([], 0)
    for crew in crews(case, main, loader):
        for begun in zip(*(_digests(worker) for worker in crew), strict=False):
            known = [(worker, one) for worker, one in zip(crew, begun, strict=True) if len(one) >= BATCHES]
            length = min((len(one) for _, one in known), default=0)
            alike: dict[tuple[int, ...], list[Process]] = {}
            for worker, one in known:
                alike.setdefault(tuple(one[:length]), []).append(worker)
            for content, workers in alike.items():
                if len(workers) > max(len(best[0]), 1) and len(set(content)) == length:
                    best = workers, length
    return best


def _digests(worker: Process) -> list[list[int]]:
    return [one for fetching in worker.fetching for one in fetching.digests]


def _all_by_each(loader: Loader) -> bool:
    """Every epoch is len() once for each worker. Of one batch each, workers may have a part each."""
    length = loader.length or 0
    return length > 1 and bool(loader.ended) and all(one.batches == length * loader.num_workers for one in loader.ended)


def _same(loader: Loader, times: int) -> str:
    used = "used" if loader.optimizer_steps else "loaded"
    whole = times == loader.num_workers
    samples = f"Every sample is {used} {_often(times)}" if whole else f"Many samples are {used} more than once"
    return f"{samples} per epoch: {part(times, loader.num_workers)} iterate over the same data."


def _whole(loader: Loader) -> str:
    workers = "both workers iterate" if loader.num_workers == 2 else "every worker iterates"
    return f"An epoch is {_often(loader.num_workers)} as long as len() says: {workers} over the whole dataset."


def _often(times: int) -> str:
    return "twice" if times == 2 else f"{times} times"


def _counts(case: Case, main: Process, loader: Loader, times: int) -> Iterator[str]:
    for epoch in loader.ended[:1]:
        told = f", len(loader) says {loader.length:,}" if loader.length else ""
        once = f": {epoch.batches // times:,} would hold every sample once" if times == loader.num_workers else ""
        yield f"epoch {epoch.number} yielded {many(epoch.batches, 'batch')}{told}{once}"
    amounts = [stream.samples for stream in fetched(case, main, loader)][: loader.num_workers]
    if loader.ended and not loader.persistent_workers and len(set(amounts)) == 1 and amounts[0]:
        yield f"each worker fetched {many(amounts[0], 'sample')} in that epoch"


def _remedy(main: Process, loader: Loader) -> Remedy:
    place = f" at {short(loader.reads_at)}" if is_users(loader.reads_at) else ""
    return Remedy(
        f"Let each worker take its share in __iter__{place}{_unless(main)}",
        code=[*_share(main), "for sample in itertools.islice(samples, number, None, count):"],
    )


def _of_files(main: Process) -> Remedy:
    return Remedy("Split the list of files in the same way: each worker then reads only its own", code=_files(main))


def _files(main: Process) -> list[str]:
    return [*_share(main), "for path in self.files[number::count]:"]


def _share(main: Process) -> list[str]:
    mine = [
        "info = torch.utils.data.get_worker_info()",
        "number, count = (info.id, info.num_workers) if info else (0, 1)",
    ]
    if (main.world or 1) < 2:
        return mine
    return [*mine, f"number, count = rank * count + number, {main.world} * count"]


def _unless(main: Process) -> str:
    return "; leave out the rank if the data is split among ranks already" if (main.world or 1) > 1 else ""
