"""Every worker goes through the whole stream, so each sample is trained on once for every worker.

## What it looks at
What stands for the content of the first batches that each worker handed over. Workers of one loader that handed over
the same batches, in the same order, have the same samples. Where the loader announces a length, also how many batches
an epoch brought: if it is that length once for every worker, each worker has brought all of it.

## Why it happens
Every worker has a copy of an IterableDataset and runs its whole `__iter__`. torch does not divide it among them: the
dataset has to ask `get_worker_info()` and take a share. The loss looks good, because the data repeats; an epoch takes
as many times longer as there are workers, and the model sees no more than before.

## What to do
Let `__iter__` take every n-th sample, or better every n-th file, of n workers, starting with the worker's own number.
With several ranks, divide by ranks as well. With one worker, or none, every sample comes once.

## How sure it is
Sure where the contents are the same: at least two batches, all different from each other, in the same order. By length
alone it is sure that every worker brings as much as the loader announces in all, not that the samples are the same
ones: they may be drawn at random. A few batches over and over, constant data, and epochs as long as announced are left
alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import crews, each_once, fetched, names, part, spare
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
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
        seen = [f"{names(twins)} handed over the same batches: the first {batches} of each have the same content"]
    elif _all_by_each(loader):
        cause = _whole(loader)
        seen = []
    else:
        return None
    return case.finding(
        main,
        cause=cause,
        seen=[*seen, *_counts(case, main, loader, len(twins) or loader.num_workers)],
        remedy=_remedy(main, loader),
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _as_announced(loader: Loader) -> bool:
    """Epochs are as long as the loader says: the workers share the samples, however alike these are."""
    if not loader.length or not loader.ended:
        return False
    return all(one.batches <= loader.length + spare(loader) for one in loader.ended)


def _twins(case: Case, main: Process, loader: Loader) -> tuple[list[Process], int]:
    """The most workers of a crew that began a pass with the same batches, and how many batches those were."""
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
    """Every epoch is the announced length once for each worker. Of one batch each, workers may have a part each."""
    length = loader.length or 0
    return length > 1 and bool(loader.ended) and all(one.batches == length * loader.num_workers for one in loader.ended)


def _same(loader: Loader, times: int) -> str:
    often = "twice" if times == 2 else f"{times} times"
    comes = "is trained on" if loader.optimizer_steps else "comes"
    samples = f"Every sample {comes}" if times == loader.num_workers else f"Many a sample {comes}"
    return (
        f"{samples} {often} in an epoch: {part(times, loader.num_workers)} of {loader.name} "
        "go through the same samples, none takes a share of its own."
    )


def _whole(loader: Loader) -> str:
    often = "twice" if loader.num_workers == 2 else f"{loader.num_workers} times"
    return (
        f"An epoch is {often} as long as announced: each of the {loader.num_workers} workers of {loader.name} "
        "goes through the whole dataset, none takes a share of its own."
    )


def _counts(case: Case, main: Process, loader: Loader, times: int) -> Iterator[str]:
    for one in loader.ended[:1]:
        told = f", the loader announces {loader.length:,}" if loader.length else ""
        once = f": {one.batches // times:,} would hold every sample once" if times == loader.num_workers else ""
        yield f"epoch {one.number} brought {many(one.batches, 'batch')}{told}{once}"
    amounts = [one.samples for one in fetched(case, main, loader)][: loader.num_workers]
    if loader.ended and not loader.persistent_workers and len(set(amounts)) == 1 and amounts[0]:
        yield f"each worker fetched {many(amounts[0], 'sample')} in it"


def _remedy(main: Process, loader: Loader) -> Remedy:
    place = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    text = (
        f"In __iter__{place}, let each worker take its share of what it goes through: "
        "`info = torch.utils.data.get_worker_info()`, then `for sample in itertools.islice(samples, info.id, None, "
        "info.num_workers)`. Dividing the list of files in the same way, `files[info.id::info.num_workers]`, reads "
        "less. Until that is done, num_workers=1 avoids it."
    )
    if (main.world or 1) > 1:
        text += (
            " Unless the samples are already divided among the ranks, count these in: share number "
            f"`rank * info.num_workers + info.id` of `{main.world} * info.num_workers`."
        )
    return Remedy(text)
