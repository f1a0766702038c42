"""WebDataset has fewer shards than workers: a worker gets none, and that is an error.

## It means
webdataset assigns whole shards to each worker: rank r of R takes every R-th, and worker w of W every W-th of those.
With fewer shards than ranks times workers, some workers have nothing to read. By default (`empty_check=True`) the
library then raises.

## Fix
Use fewer workers, at most as many as a rank has shards:

```python
# before: 2 shards
loader = wds.WebLoader(dataset, num_workers=3)

# after
loader = wds.WebLoader(dataset, num_workers=2)
```

or let every worker draw shards at random. `with_epoch(n)` on the dataset counts in each worker, so an epoch is
n × num_workers:

```python
dataset = wds.WebDataset(urls, resampled=True, nodesplitter=None).with_epoch(n)
```

or write more and smaller shards, ranks times workers or a multiple of that (`wds.ShardWriter(pattern, maxcount=…)`).
`empty_check=False` only silences it: such a worker idles, and a rank without any shard blocks all others.

## Check it yourself

```python
from braceexpand import braceexpand  # webdataset installs it

shards = len(list(braceexpand("data/train-{000000..000001}.tar")))
print(shards, "shards for", world_size * num_workers, "workers")
```

## Not this, if
- nothing is raised, and the run hangs: [wds-empty-rank-hang](wds-empty-rank-hang.md)
- the worker had shards, and none of them could be read: [shard-read-errors](shard-read-errors.md)
- it is a stream of Hugging Face datasets: [workers-without-shards](workers-without-shards.md)

## How sure
Judged from the exception that ended the training, raised by webdataset's own `check_empty` in a process that no shard
was left for, and from how the shards were split over ranks and workers. Certain where the process that raised had no
shard. The library says "perhaps you have fewer shards than workers" also where a worker had shards and none of them
could be read: this rule is silent then. Before a run, `unstuck check --ranks --workers` compares the number of archives
with both; archives whose name says that they are for validation are not counted.

## Seen in
- https://github.com/webdataset/webdataset/issues/65: what happens with fewer shards than workers
- https://github.com/webdataset/webdataset/issues/188: too many workers or one shard file, and training hangs
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.shards import ARCHIVES, Refused, TooFew, crew_size, newest, refused, too_few
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable
from ...wording.settings import settings
from ...wording.text import many, said
from ..rule import Level, rule

TEXTS = (
    "No samples found in dataset; perhaps you have fewer shards than workers.",
    "Turn off using empty_check=False in the WebDataset constructor.",
)
RAISES = "check_empty"


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording|data",),
    level=Level.CAUSE,
    outranks=("workers-without-shards", "uneven-file-assignment"),
)
def check(case: Case) -> Iterator[Finding]:
    few = too_few(case, ARCHIVES)
    if few is not None:
        yield _ahead(case, few)
    found = refused(case, RAISES)
    if found is None or found.shards is None or found.shards.mine != 0 or found.shards.opened:
        return
    one, shards = found.raised, found.shards
    ranks, workers = crew_size(one.main, one.loader)
    name = _name(one.process.rank, one.process.worker)
    most = (shards.total or 0) // ranks
    remedy, *others = _ways(ranks, workers, settings(one.loader, num_workers=most) if workers > 1 and most else "")
    total = "Too few shards" if shards.total is None else many(shards.total, "shard")
    yield case.finding(
        one.process,
        cause=f"{total} for {_crew(ranks, workers)}: {name} has nothing to read, so webdataset raised.",
        seen=list(_seen(case, found)),
        remedy=remedy,
        alternatives=others,
        saw=said(one.failure),
        onset_s=one.failure.at,
        where=shards.where or (one.loader.created if one.loader is not None else None),
        subject=Subject("loader", one.loader.name) if one.loader is not None else None,
    )


def _crew(ranks: int, workers: int) -> str:
    return f"{ranks} ranks" if ranks > 1 and workers == 1 else many(ranks * workers, "worker")


def _seen(case: Case, found: Refused) -> Iterator[str]:
    one = found.raised
    ranks, workers = crew_size(one.main, one.loader)
    each = f", {ranks} ranks with {workers} workers each" if ranks > 1 and workers > 1 else ""
    yield f"raised in webdataset's {RAISES} by {one.by}{each}"
    parts = [(each, newest(each)) for each in case.recording or ()]
    known = [(each, shards) for each, shards in parts if shards is not None and shards.mine is not None]
    told = [f"{_name(each.rank, each.worker)}: {shards.mine}" for each, shards in known[:8]]
    if len(told) > 1:
        yield f"shards of each: {', '.join(told)}"
    if found.others:
        yield f"{len(found.others) + 1} processes raised this; it was the first"


def _name(rank: int | None, worker: int | None) -> str:
    names = [f"worker {worker}" if worker is not None else "", f"rank {rank}" if rank is not None else ""]
    return " of ".join(name for name in names if name) or "the main process"


def _ways(ranks: int, workers: int, fewer: str) -> list[Remedy]:
    """`fewer`: the setting with which every worker has a shard. Empty: there is none."""
    splitter = ", nodesplitter=None" if ranks > 1 else ""
    count = f"n per worker: an epoch is {workers} × n" if workers > 1 else "the same n on every rank"
    ways = [Remedy(f"Set {fewer}: every worker then has a shard.")] if fewer else []
    return [
        *ways,
        Remedy(
            "Let every worker draw shards at random:",
            code=[f"dataset = wds.WebDataset(urls, resampled=True{splitter}).with_epoch(n)  # {count}"],
        ),
        Remedy(f"Write the data into {many(ranks * workers, 'shard')} or a multiple of that."),
    ]


def _ahead(case: Case, few: TooFew) -> Finding:
    """Nothing runs yet."""
    count, most = len(few.files), len(few.files) // few.ranks
    remedy, *others = _ways(few.ranks, few.workers, f"num_workers={most}" if few.workers > 1 and most else "")
    return case.finding(
        cause=f"Only {many(count, 'shard')} for {_crew(few.ranks, few.workers)}: webdataset raises in a worker "
        "without one.",
        seen=[
            f"{many(count, 'shard')}: {', '.join(printable(one.path) for one in few.files[:4])}{', …' * (count > 4)}",
            f"without a shard: {few.idle} of {many(few.readers, 'process')}",
        ],
        remedy=remedy,
        alternatives=others,
        subject=Subject("file", few.files[0].path),
        symptom=Symptom.BAD_DATA.value,
    )
