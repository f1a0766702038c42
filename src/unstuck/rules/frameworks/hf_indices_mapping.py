"""Rows of a Hugging Face dataset are read through an index mapping, and that dominates loading.

## It means
`shuffle`, `select`, `filter`, `sort` and `train_test_split` move no row. They keep the numbers of the rows in their new
order (`dataset._indices`). A read that was one piece of memory before becomes a look-up and a small copy for every row.
Slices of a thousand rows take ten times as long, and more where the rows come from a disk. Rows that are asked for one
by one come in pieces anyway: there it is the look-up alone.

## Fix
Write the rows in their new order once. That makes a copy of the dataset in the cache folder.

```python
# before
dataset = dataset.shuffle(seed=7)

# after
dataset = dataset.shuffle(seed=7).flatten_indices()
```

Or leave shuffling to the loader, or to a stream, which reads whole pieces:

```python
loader = DataLoader(dataset, batch_size=32, shuffle=True)  # dataset without .shuffle()

stream = dataset.to_iterable_dataset(num_shards=64).shuffle(seed=7, buffer_size=10_000)
```

## Check it yourself

```python
import time

print(dataset._indices is not None)  # True: rows are read through an index

for name, rows in (("index", dataset), ("flat", dataset.flatten_indices())):
    begin = time.perf_counter()
    for at in range(0, 20_000, 1000):
        rows[at : at + 1000]
    print(name, time.perf_counter() - begin)
```

## Not this, if
- decoding or a transform takes the time, not the reading: [dataloader-bound](dataloader-bound.md)
- the data is in memory, and there is no index: [per-sample-fetch-in-memory](per-sample-fetch-in-memory.md)
- the storage itself is slow, and `flatten_indices()` changes little: [slow-storage](slow-storage.md)

## How sure
The seconds are measured around the reads themselves, without decoding and transforms; the fetching of the rows that the
index points to is part of it, so slow storage shows here, too. It speaks where they are half of loading and the loop
waits for data, or where they are half of what the main process does, and two seconds. An index that costs little,
because samples take long for another reason or the loop keeps up, is no finding. Where it cannot be known whether a GPU
was busy at the same time, the finding is only possible.

## Seen in
- https://github.com/huggingface/datasets/issues/1755: select and reordering slow everything down
- https://github.com/huggingface/datasets/issues/5908: sorting after `shard()`, fast again after `flatten_indices()`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.gpu import GPU_BUSY, gpu_use
from ...analysis.loading import fetching, waiting
from ...analysis.passes import each_once
from ...analysis.stages import together
from ...evidence.basics import Place, Timing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Call, Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent, short
from ..rule import rule

READING = "rows through an indices mapping (datasets)"  # as the recording calls it
ROWS, MAPPING = "rows", "indices mapping"
DATASET = "datasets.arrow_dataset.Dataset"
SHARE = 0.5  # of loading: below that, it would remain slow without the index
SECONDS = 2.0  # in the main process's own code: less is not worth writing a dataset again


class Made(NamedTuple):
    """The line that left an index mapping."""

    method: str
    where: Place | None


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    of_loaders = [_of_loader(case, main, loader) for main in case.mains for loader in main.loaders]
    yield from each_once([*of_loaders, *(_of_main(case, main) for main in case.mains)])


def _of_loader(case: Case, main: Process, loader: Loader) -> Finding | None:
    loading = case.workers_of(main, loader) if loader.num_workers else [main]
    reads = together(one.stages[READING] for one in loading if READING in one.stages)
    known = fetching(case, main, loader)
    fetched = sum(one.fetches.total for one in known)
    if not fetched or reads.total < SHARE * fetched or not waiting(loader).matters:
        return None
    gpu = gpu_use(case, main)
    if (gpu.busy or 0.0) >= GPU_BUSY or (loader.num_workers == 0 and len(main.fetching) > 1):
        return None
    share, made = reads.total / fetched, _made(main)
    name = loader.name
    return _found(
        case,
        main,
        made,
        f"Reading rows through {_index(made)} takes {percent(share)} of loading, and the loop waits for data "
        f"{percent(waiting(loader).share)} of the time.",
        [
            f"{name}: {many(reads.count, 'read')} through the index, {duration(reads.mean)} each, "
            f"{duration(reads.total)} of {duration(fetched)} of loading",
            f"per step: {duration(loader.waits.mean)} waiting for data, {duration(loader.bodies.mean)} training",
            *gpu.words,
        ],
        _remedies(made, loader),
        Subject("loader", name),
        certainty=gpu.certainty,
        lost=share * waiting(loader).share,
    )


def _of_main(case: Case, main: Process) -> Finding | None:
    """In a loop over the dataset itself, or in `map`."""
    reads = [one for one in main.calls if (one.what, one.name) == (ROWS, READING)]
    worst = max(reads, key=lambda one: one.timing.total, default=None)
    if worst is None or worst.timing.total < SECONDS or worst.timing.total < SHARE * _lasted(worst):
        return None
    made = _made(main)
    return _found(
        case,
        main,
        made,
        f"Reading rows through {_index(made)} at {short(worst.where)} took {duration(worst.timing.total)}, "
        f"{percent(min(worst.timing.total / _lasted(worst), 1.0))} of the time from first to last read.",
        [f"reads through the index at {short(worst.where)}: {_in_words(worst.timing)}"],
        _remedies(made, None),
        Subject("line", short(worst.where)),
        worst.where,
    )


def _lasted(call: Call) -> float:
    return max(call.last - call.at, call.timing.total, 1e-9)


def _in_words(timing: Timing) -> str:
    return f"{duration(timing.total)} in all, the longest {duration(timing.longest)}"


def _found(case: Case,
    main: Process, made: Made | None, cause: str, seen: list[str], remedies: list[Remedy], subject: Subject,
    where: Place | None = None, certainty: str = "", lost: float | None = None,
) -> Finding:  # fmt: skip
    return case.finding(
        main,
        cause=cause,
        seen=seen,
        remedy=remedies[0],
        alternatives=remedies[1:],
        where=made.where if made is not None and made.where is not None else where,
        subject=subject,
        certainty=certainty,
        share=lost,
    )


def _made(main: Process) -> Made | None:
    """The newest line that left one. A filter is known by its own call."""
    calls = [(one.at, Made(one.name, one.where)) for one in main.calls if one.what == MAPPING]
    filters = [(one.at, Made("filter", one.where)) for one in main.sources if one.name == "datasets.filter"]
    return max([*calls, *filters], key=lambda one: one[0])[1] if calls or filters else None


def _index(made: Made | None) -> str:
    return f"the {made.method}() index" if made is not None else "an index mapping"


def _remedies(made: Made | None, loader: Loader | None) -> list[Remedy]:
    after = f", right after {made.method}()" if made is not None else ""
    write = Remedy(
        f"Write the rows in their new order once{after}; this makes a copy of the dataset in its cache:",
        code=["dataset = dataset.flatten_indices()"],
    )
    if made is None or made.method != "shuffle" or loader is None or loader.dataset != DATASET:
        return [write]
    if loader.shuffle:
        return [Remedy("Remove shuffle(): the DataLoader shuffles anyway."), write]
    if loader.made_by:
        return [write, Remedy(f"Remove shuffle() and let the loader do it: {settings(loader, shuffle=True)}.")]
    return [write, Remedy("Remove shuffle() and let the DataLoader do it:", code=["shuffle=True"])]
