"""Files are dealt unevenly, so one rank or worker has no more while the others still read.

## What it looks at
Lists of paths among the dataset's attributes, and how many each rank has; or one list that all have and that the number
of ranks, or of workers, does not divide. Then what became of it: how many batches each rank got before its pass came to
an end, or how often it went through what it has, how many samples each worker brought and when it was through.

## Why it happens
`files[rank::world]` gives some ranks one file more than others, and `files[info.id::info.num_workers]` some workers.
With many small files that is nothing. With a few large ones it is a whole share: the rank that has less leaves the loop
while the others wait for it in the next collective, and the worker that has less leaves the others to load alone. In a
loop that begins anew, the few files are trained on more often than the rest.

## What to do
Make the number of files a multiple of ranks times workers, or divide single samples instead of files. Where ranks must
go in step, let all of them do as many steps as the shortest share has.

## How sure it is
Sure of the lists, and of who was through first. It speaks where both agree: who has fewer files is who had fewer
samples, or went through them more often. How a common list was divided is concluded from what each brought. One file
more in many, loops inside of `Join`, and datasets that a sampler divides are left alone.
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
from ...wording.text import duration, many, percent, short, who
from ..rule import rule
from ._file_assignment import Dealt, among_ranks, among_workers

SHARE = 0.2  # of the batches of the rank that has most, by which another has fewer
ROUNDS = 1.5  # times as often as another: its samples count for so much more in the training
SECONDS = 3.0  # for which the longest went on: a short trial costs nobody anything


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
    for dealt in among_ranks(shares):
        if dealt.uneven and all(dealt.counts[few.rank] < dealt.counts[one.rank] for one in more):
            return _over_ranks(case, few, more, dealt, apart)
    return None


def _had(one: Share) -> int:
    return one.loader.batches


def _ended_apart(shares: list[Share]) -> list[Share]:
    """Who went on longest, where all went through all they had, each at its own pace, and one had far less."""
    last, least = max(shares, key=_had), min(map(_had, shares))
    through = all(one.stand.ended and not one.inside and not one.left for one in shares)
    if not through or waiting(last.loader).looped < SECONDS or least > (1 - SHARE) * _had(last):
        return []
    return [one for one in shares if _had(one) == _had(last)]


def _over_ranks(case: Case, few: Share, more: list[Share], dealt: Dealt, apart: Apart | None) -> Finding:
    rest = listed(one.rank for one in more)
    own = dealt.counts[few.rank]
    waits = f"{rest} waited for it in {more[0].stand.spot}" if apart is not None else f"{rest} went on without it"
    return case.finding(
        few.process,
        cause=f"The {dealt.files:,} files of {few.loader.name} are dealt unevenly: rank {few.rank} has "
        f"{own or 'none'}, {rest} {_has(more)} {dealt.counts[more[0].rank]:,}. Rank {few.rank} had no more after "
        f"{many(few.loader.pass_batches, 'batch')}, and {waits}.",
        seen=list(_ranks_seen(few, more, dealt, apart)),
        remedy=_ranks_remedy(few, dealt),
        rank=few.rank,
        onset_s=few.newest.ended if few.newest is not None else None,
        where=few.loader.created if is_users(few.loader.created) else few.loader.reads_at,
        subject=Subject("loader", few.loader.name),
    )


def _in_rounds(case: Case, shares: list[Share]) -> Finding | None:
    """All do as many steps, and who has fewer files goes through them more often."""
    if any(one.loader.sampling or joins(one) for one in shares):
        return None
    for dealt in among_ranks(shares):
        few = min(shares, key=lambda one: dealt.counts.get(one.rank, 0))
        most = max(shares, key=lambda one: dealt.counts.get(one.rank, 0))
        often, seldom = few.loader.passes, max(most.loader.passes, 1)
        if dealt.listed and dealt.least and often > 2 and min(often / seldom, dealt.most / dealt.least) >= ROUNDS:
            return _over_and_over(case, few, most, dealt)
    return None


def _over_and_over(case: Case, few: Share, most: Share, dealt: Dealt) -> Finding:
    name = few.loader.name
    return case.finding(
        few.process,
        cause=f"The {dealt.files:,} files of {name} are dealt unevenly: rank {few.rank} has {dealt.least:,} and went "
        f"through them {few.loader.passes:,} times, rank {most.rank} has {dealt.most:,} and went through them "
        f"{many(most.loader.passes, 'time')}. Its samples count that much more in the training.",
        seen=[
            f"files in self.{dealt.name} on each rank: rank {str(dealt).replace(', ', ', rank ')}",
            *(f"rank {one.rank}: {many(one.loader.batches, 'batch')}" for one in (few, most)),
        ],
        remedy=Remedy(f"{_divided(few, dealt)}."),
        rank=few.rank,
        where=few.loader.created if is_users(few.loader.created) else few.loader.reads_at,
        subject=Subject("loader", name),
        symptom=Symptom.WRONG.value,
    )


def _has(more: list[Share]) -> str:
    return "has" if len(more) == 1 else "have"


def _ranks_seen(few: Share, more: list[Share], dealt: Dealt, apart: Apart | None) -> Iterator[str]:
    whose = "on each rank" if dealt.listed else f"(the same {dealt.files:,} on every rank), divided among them"
    yield f"files in self.{dealt.name} {whose}: rank {str(dealt).replace(', ', ', rank ')}"
    parts = "; ".join(f"rank {one.rank}: {_batches(one)}" for one in (few, *more)[:8])
    yield f"batches of pass {few.loader.passes:,}: {parts}"
    if apart is not None:
        yield from told(apart.stands)


def _batches(one: Share) -> str:
    return f"{one.loader.pass_batches:,}, {'and it is in the middle of it' if one.inside else 'and no more'}"


def _ranks_remedy(few: Share, dealt: Dealt) -> Remedy:
    return Remedy(
        f"{_divided(few, dealt)}. Until then let every rank do as many steps as the shortest share has, "
        "`for batch in itertools.islice(loader, steps)`, where steps is the least of all, by all_reduce with "
        "ReduceOp.MIN."
    )


def _divided(few: Share, dealt: Dealt) -> str:
    world = len(dealt.counts)
    each = max(few.loader.num_workers, 1)
    place = f" ({short(few.loader.reads_at)})" if is_users(few.loader.reads_at) else ""
    workers = "" if each == 1 else f" times {each} workers"
    divide = (
        f"divide samples, in __iter__{place}: `itertools.islice(samples, rank, None, {world})`"
        if few.loader.iterable
        else "let a DistributedSampler divide the samples"
    )
    return (
        f"Write the data as a multiple of {world * each} files ({world} ranks{workers}), or read all files on every "
        f"rank and {divide}"
    )


def _of_workers(case: Case, main: Process, loader: Loader) -> Finding | None:
    crew = newest_crew(case, main, loader) if loader.files else None
    if crew is None or not crew.costs:
        return None
    for dealt in among_workers(crew, _elsewhere(case, crew)):
        if dealt.uneven:
            return _over_workers(case, crew, dealt)
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


def _over_workers(case: Case, crew: Crew, dealt: Dealt) -> Finding:
    first, last = crew.early[0], crew.last
    few, more = (dealt.counts[one.worker.worker or 0] for one in (first, last))
    name = crew.loader.name
    return case.finding(
        first.worker,
        cause=f"The {dealt.files:,} files of {name} are dealt unevenly to its {len(crew.streams)} workers: "
        f"{who(first.worker)} has {few or 'none'}, {who(last.worker)} {more:,}. For the last "
        f"{duration(crew.ended - crew.early[-1].ended)} of {duration(crew.lasted)} the pass ran with "
        f"{many(len(crew.streams) - len(crew.early), 'worker')}.",
        seen=[
            f"self.{dealt.name} has {many(dealt.files, 'file')}; divided as the samples are, worker "
            + str(dealt).replace(", ", ", worker "),
            f"samples in pass {crew.number}: {crew.totals}",
            f"the pass took {duration(crew.lasted)}; with shares that end together the same work takes "
            f"{duration(crew.evenly)}",
        ],
        remedy=_workers_remedy(crew, dealt),
        onset_s=first.ended,
        where=crew.loader.reads_at if is_users(crew.loader.reads_at) else crew.loader.created,
        subject=Subject("loader", name),
    )


def _workers_remedy(crew: Crew, dealt: Dealt) -> Remedy:
    workers, own = len(crew.streams), sum(dealt.counts.values())
    fitting = max((one for one in range(1, workers + 1) if own % one == 0), default=1)
    place = f" ({short(crew.loader.reads_at)})" if is_users(crew.loader.reads_at) else ""
    fewer = f" num_workers={fitting} deals them evenly, with fewer workers." if 1 < fitting < workers else ""
    return Remedy(
        f"Write the data as a multiple of {workers} files, many and small; or let every worker read all files and "
        f"divide samples, in __iter__{place}: `itertools.islice(samples, info.id, None, info.num_workers)`. "
        f"The pass then takes up to {percent(1 - crew.evenly / crew.lasted)} less time.{fewer}"
    )
