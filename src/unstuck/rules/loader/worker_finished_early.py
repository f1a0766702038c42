"""One worker had far fewer samples than the others, so the rest of the epoch ran with fewer workers.

## It means
With an IterableDataset every worker reads a part of its own, and torch cannot even them out: what one worker has left,
no other can take. Parts that are divided by what is at hand (a language, a day, a range of keys) are of very different
sizes. Once the short ones are finished, the last worker loads alone.

## Fix
Split by samples or by many small pieces rather than by a few large ones, so every worker has about the same.
```python
# before
def __iter__(self):
    language = LANGUAGES[get_worker_info().id]  # one large part per worker
    yield from self.read(language)


# after
def __iter__(self):
    info = get_worker_info()
    pieces = [piece for language in LANGUAGES for piece in self.pieces(language)]
    for piece in itertools.islice(pieces, info.id, None, info.num_workers):
        yield from self.read(piece)
```
Pieces that differ much in size: assign the largest first, each to the worker that has least so far.
```python
pieces.sort(key=os.path.getsize, reverse=True)
loads = [0] * info.num_workers
mine = []
for piece in pieces:
    worker = loads.index(min(loads))
    loads[worker] += os.path.getsize(piece)
    if worker == info.id:
        mine.append(piece)
```

## Check it yourself
```python
def __iter__(self):
    count = 0
    for count, sample in enumerate(self.samples(), 1):
        yield sample
    print(f"worker {get_worker_info().id}: {count} samples at {time.monotonic():.1f} s")
```

## Not this, if
- some workers get no sample at all, because there are fewer shards than workers:
  [workers-without-shards](workers-without-shards.md), [wds-fewer-shards-than-workers](wds-fewer-shards-than-workers.md)
- ranks rather than workers are uneven: [uneven-file-assignment](uneven-file-assignment.md),
  [straggler-rank](straggler-rank.md)
- every worker reads all samples: [iterable-duplicated](iterable-duplicated.md)

## How sure
Judged, for each worker of an iterable dataset, from how many samples it had in an epoch, how long these took
and when its stream ended; from how long the epoch took, and how long it would have taken had all workers ended
together. It is counted in the workers themselves. No line in a log is needed for it: a worker that is stopped after as
many samples as were asked of it does not say that it has completed, and that is no sign of being stuck. It speaks where
a fifth of the epoch, and half a second, would be saved. Equal totals, short epochs, and loops that are slower than the
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
from ...wording.text import duration, many, percent, short
from ..rule import Level, rule

MOST = 4  # workers named in a sentence
BY_SIZE = Remedy("Assign large pieces by size: the largest first, each to the worker that has least so far.")


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
        cause=f"Uneven split: {_who(early)} had {_amounts(early)}, {_worker(crew.last)} had {crew.last.samples:,}, "
        f"so {_rest(crew, early)}.",
        seen=list(_seen(crew, early)),
        remedy=_remedy(loader),
        alternatives=[BY_SIZE],
        onset_s=first.ended,
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _worker(one: Stream) -> str:
    return f"worker {one.worker.worker}"


def _who(early: list[Stream]) -> str:
    if len(early) == 1:
        return _worker(early[0])
    names = ", ".join(str(one.worker.worker) for one in early[:MOST])
    return f"workers {names}" if len(early) <= MOST else f"{len(early)} workers"


def _amounts(early: list[Stream]) -> str:
    least, most = min(one.samples for one in early), max(one.samples for one in early)
    words = many(most, "sample") if most else "no samples"
    return words if least == most else f"at most {words}"


def _rest(crew: Crew, early: list[Stream]) -> str:
    alone = len(crew.streams) - len(early) == 1
    return "one worker ran alone at the end" if alone else "the epoch ended with fewer workers"


def _seen(crew: Crew, early: list[Stream]) -> Iterator[str]:
    rest = crew.ended - max(one.ended for one in early)
    yield (
        f"{percent(rest / crew.lasted)} of the epoch ({duration(rest)} of {duration(crew.lasted)}) ran with "
        f"{len(crew.streams) - len(early)} of {many(len(crew.streams), 'worker')}"
    )
    yield f"samples in epoch {crew.number}: {crew.totals}"
    ends = ", ".join(f"{_worker(one)} after {duration(one.ended - crew.began)}" for one in crew.streams[:8])
    yield f"streams ended: {ends}"
    even = sum(one.samples for one in crew.streams) // len(crew.streams)
    yield (
        f"an even split is about {many(even, 'sample')} per worker: the epoch would take {duration(crew.evenly)}, "
        f"not {duration(crew.lasted)}"
    )
    yield f"{crew.loader.name}: the loop waits for data {percent(waiting(crew.loader).share)} of the time"


def _remedy(loader: Loader) -> Remedy:
    place = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    return Remedy(
        f"Split single samples or many small pieces evenly between the workers, in __iter__{place}",
        code=[
            "info = torch.utils.data.get_worker_info()",
            "for piece in itertools.islice(pieces, info.id, None, info.num_workers):",
        ],
    )
