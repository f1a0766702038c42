"""WebDataset has fewer shards than there are workers to read them: one gets none, and that is an error.

## What it looks at
The exception that ended the training: webdataset's own `check_empty` raised, in a process that no shard was left for.
How many shards there are, how they were shared out over ranks and workers, and the line that made the dataset. Before a
run, `unstuck check --ranks --workers`: the number of archives against both.

## Why it happens
webdataset gives each worker whole shards of its own: rank r of R takes every R-th, and worker w of W every W-th of
those. With fewer shards than ranks times workers somebody has nothing to read. By default (`empty_check=True`) the
library then raises.

## What to do
Fewer workers, more and smaller shards, or `resampled=True` with `.with_epoch(n)`, where every worker draws shards at
random. `empty_check=False` only silences it: such a worker idles, and a rank without any shard holds up all others.

## How sure it is
Certain where the process that raised had no shard. The library says "perhaps you have fewer shards than workers" also
where a worker had shards and none of them could be read: this rule is silent then. In a check, archives whose name says
that they are for validation are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.shards import ARCHIVES, Refused, TooFew, crew_size, newest, refused, too_few
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Shards
from ...wording.printable import printable
from ...wording.settings import settings
from ...wording.text import line, many, said, short
from ..rule import Level, rule

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
    yield case.finding(
        one.process,
        cause=f"{_total(shards)} for {_crew(ranks, workers)}{_made(shards)}: none was left for {one.by}, and "
        "webdataset's empty_check makes that an error.",
        seen=list(_seen(case, found)),
        remedy=_remedy(shards, ranks, workers, one.loader),
        onset_s=one.failure.at,
        where=shards.where or (one.loader.created if one.loader is not None else None),
        subject=Subject("loader", one.loader.name) if one.loader is not None else None,
    )


def _total(shards: Shards) -> str:
    if shards.total is None:
        return "There are too few shards"
    return f"There {'is' if shards.total == 1 else 'are'} only {many(shards.total, 'shard')}"


def _crew(ranks: int, workers: int) -> str:
    if ranks == 1:
        return many(workers, "worker")
    return f"{ranks} ranks with {many(workers, 'worker')} each" if workers > 1 else f"{ranks} ranks"


def _made(shards: Shards) -> str:
    return f" in the WebDataset of {short(shards.where)}" if shards.where is not None else ""


def _seen(case: Case, found: Refused) -> Iterator[str]:
    one = found.raised
    yield f"{said(one.failure)} ({one.by})"
    parts = [(each, newest(each)) for each in case.recording or ()]
    known = [(each, shards) for each, shards in parts if shards is not None and shards.mine is not None]
    told = [f"{_name(each.rank, each.worker)}: {shards.mine}" for each, shards in known[:8]]
    if len(told) > 1:
        yield f"shards of each: {', '.join(told)}"
    if found.shards is not None and found.shards.where is not None:
        yield f"the dataset was made at {line(found.shards.where)}"
    if found.others:
        yield f"{len(found.others) + 1} processes raised this; it was the first"


def _name(rank: int | None, worker: int | None) -> str:
    names = [f"rank {rank}" if rank is not None else "", f"worker {worker}" if worker is not None else ""]
    return " ".join(one for one in names if one) or "the main process"


def _remedy(shards: Shards, ranks: int, workers: int, loader: Loader | None) -> Remedy:
    most = (shards.total or 0) // ranks
    fewer = f"set {settings(loader, num_workers=most)}" if workers > 1 and most else ""
    return _ways(ranks, workers, fewer)


def _ways(ranks: int, workers: int, fewer: str) -> Remedy:
    shared = ", nodesplitter=None" if ranks > 1 else ""
    draw = f"wds.WebDataset(urls, resampled=True{shared}, …).with_epoch(n)"
    ways = [fewer] if fewer else []
    ways.append(f"let every worker draw shards at random, `{draw}`")
    ways.append(f"write the data into {ranks * workers:,} shards or a multiple of that")
    text = "; or ".join(ways)
    return Remedy(f"{text[:1].upper()}{text[1:]}. empty_check=False would only hide it: workers without shards idle.")


def _ahead(case: Case, few: TooFew) -> Finding:
    """Nothing runs yet."""
    count, most = len(few.files), len(few.files) // few.ranks
    fewer = f"set num_workers={most}" if few.workers > 1 and most else ""
    return case.finding(
        cause=f"There {'is' if count == 1 else 'are'} only {many(count, 'shard')} for {_crew(few.ranks, few.workers)}: "
        f"{many(few.idle, 'process')} of {few.readers} {'gets' if few.idle == 1 else 'get'} none, and webdataset's "
        "empty_check makes that an error.",
        seen=[
            f"{many(count, 'shard')}: {', '.join(printable(one.path) for one in few.files[:4])}{', …' * (count > 4)}"
        ],
        remedy=_ways(few.ranks, few.workers, fewer),
        subject=Subject("file", few.files[0].path),
    )
