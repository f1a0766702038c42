"""One worker had far fewer samples than the others, so the rest of the pass ran with fewer workers.

## What it looks at
For each worker of an iterable dataset: how many samples it brought in a pass, how long it worked for them and when its
stream came to an end. How long the pass took, and how long it would have taken had all workers ended together.

## Why it happens
With an IterableDataset every worker goes through a share of its own, and torch cannot even them out: what one worker
has left, no other can take. Shares that are divided by what is at hand (a language, a day, a range of keys) are of very
different sizes. Once the short ones are through, the last worker loads alone.

## What to do
Divide by samples or by many small pieces rather than by a few large ones, so that every worker has about the same.

## How sure it is
It is counted in the workers themselves. No line in a log is needed for it: a worker that is stopped after as many
samples as were asked of it says nothing of having completed, and that is no sign of being stuck. It speaks where a
fifth of the pass, and half a second, would be saved. Equal totals, short passes, and loops that are slower than the
workers anyway are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import Crew, Stream, newest_crew, waiting
from ...analysis.passes import each_once
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short, who
from ..rule import Level, rule


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main in case.mains for loader in main.loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    crew = newest_crew(case, main, loader)
    if crew is None or not crew.costs:
        return None
    early = crew.early
    first = early[0]
    return case.finding(
        first.worker,
        cause=f"{_who(early)} of {loader.name} {'was' if len(early) == 1 else 'were'} through after "
        f"{_amounts(early)}, while {who(crew.last.worker)} had {crew.last.samples:,}: for the last "
        f"{duration(crew.ended - max(one.ended for one in early))} of {duration(crew.lasted)} the pass ran with "
        f"{many(len(crew.streams) - len(early), 'worker')} of {len(crew.streams)}.",
        seen=list(_seen(crew)),
        remedy=_remedy(loader, crew),
        onset_s=first.ended,
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _who(early: list[Stream]) -> str:
    names = who(early[0].worker)
    if len(early) == 1:
        return f"{names[:1].upper()}{names[1:]}"
    return f"Workers {', '.join(str(one.worker.worker) for one in early)}"


def _amounts(early: list[Stream]) -> str:
    least, most = min(one.samples for one in early), max(one.samples for one in early)
    return many(most, "sample") if least == most else f"{least:,} to {many(most, 'sample')}"


def _seen(crew: Crew) -> Iterator[str]:
    yield f"samples in pass {crew.number}: {crew.totals}"
    ends = ", ".join(f"worker {one.worker.worker} after {duration(one.ended - crew.began)}" for one in crew.streams[:8])
    yield f"streams ended: {ends}"
    yield (
        f"the pass took {duration(crew.lasted)}; with shares that end together the same work takes "
        f"{duration(crew.evenly)}"
    )
    yield f"the loop waits for data {percent(waiting(crew.loader).share)} of the time"


def _remedy(loader: Loader, crew: Crew) -> Remedy:
    place = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    share = sum(one.samples for one in crew.streams) // len(crew.streams)
    return Remedy(
        f"Let each worker take about {many(share, 'sample')}: in __iter__{place}, divide single samples or many small "
        "pieces, `itertools.islice(pieces, info.id, None, info.num_workers)` with info = "
        "torch.utils.data.get_worker_info(), or deal large pieces out by size, the largest first, each to the worker "
        f"that has least. The pass then takes {percent(1 - crew.evenly / crew.lasted)} less time."
    )
