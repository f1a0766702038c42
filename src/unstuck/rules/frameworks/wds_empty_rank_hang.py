"""A rank got no shard of the WebDataset, so it has no batch, and the others wait for it in their first step.

## What it looks at
How webdataset shared its shards out: how many there are, how many were left for each rank and its workers. And what
became of it: a rank whose pass over the loader brought not a single batch, while others wait in a collective with the
batch that it never had, or died there; or a rank that fell over its own empty loop.

## Why it happens
`nodesplitter=wds.split_by_node` gives rank r of R every R-th shard. With fewer shards than ranks, the last ranks get
nothing. By default that is an error at the first sample; `empty_check=False`, or a pipeline put together by hand, lets
such a rank go through its empty loop at once, to a barrier or to the end of the script. It is met most often in
validation, which has few shards.

## What to do
More and smaller shards than ranks times workers; or `resampled=True, nodesplitter=None` with `.with_epoch(n)`: every
rank draws shards at random, and all have epochs of the same length. A small validation set may be read by all ranks,
`nodesplitter=None`, or by rank 0 alone, outside of DDP.

## How sure it is
Sure where no process of that rank was given a shard and its pass ended with no batch while another rank has one. A rank
that had shards and lost them to read errors, or has merely fewer than others, is not called so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.passes import crews
from ...analysis.ranks import listed, told
from ...analysis.shards import WEBDATASET, crew_size, newest, readers
from ...analysis.shares import Apart, uneven
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Shards
from ...evidence.process import Process
from ...wording.text import line, many, said, short
from ..rule import Level, rule


class Empty(NamedTuple):
    """A rank without shards, its loader, and what its list is."""

    main: Process
    loader: Loader
    shards: Shards


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("empty-loader-drop-last", "uneven-file-assignment", "workers-without-shards"),
)
def check(case: Case) -> Iterator[Finding]:
    empty = _empty(case)
    if not empty:
        return
    apart = uneven(case)
    one = next((each for each in empty if apart is not None and each.main.rank == apart.one.rank), None)
    if apart is not None and one is not None and apart.one.loader.number == one.loader.number:
        yield _stuck(case, one, empty, apart)
        return
    fell = next((each for each in empty if _fell(each)), None)
    if fell is not None:
        yield _fallen(case, fell, empty)


def _empty(case: Case) -> list[Empty]:
    """Ranks with a loader that brought nothing, and of which no process has a shard."""
    found = []
    for main in case.ranks:
        for loader in main.loaders:
            lists = _lists(case, main, loader) if loader.passes and not loader.pass_batches else []
            if lists and all((one.mine == 0 and not one.opened) or _all_left_out(one) for one in lists):
                found.append(Empty(main, loader, max(lists, key=lambda one: one.samples)))
    return found if len({one.main.rank for one in found}) < len(case.ranks) else []


def _all_left_out(one: Shards) -> bool:
    """Samples came out of its shards, to their end, and none of them out of the pipeline."""
    return one.samples > 0 and one.passes > 0


def _lists(case: Case, main: Process, loader: Loader) -> list[Shards]:
    """What those that load for it go through; without workers that is the rank itself, which may load for others."""
    if loader.num_workers:
        crew = next(reversed(crews(case, main, loader)), [])
        return [shards for one in crew if (shards := newest(one)) is not None]
    own = [one for one in main.shards if one.library == WEBDATASET]
    return [one for one in own if one.mine == 0 or _all_left_out(one)][-1:]


def _fell(one: Empty) -> bool:
    """Its own code ended it after the empty loop: a loss that was never computed, a division by no batches."""
    failure = one.main.failure
    return failure is not None and failure.how == "uncaught" and failure.position is None


def _stuck(case: Case, one: Empty, empty: list[Empty], apart: Apart) -> Finding:
    died = all(other.stand.death is not None for other in apart.behind)
    wait = "waited" if died else "waits" if len(apart.behind) == 1 else "wait"
    then = " and came to the end of the script" if apart.one.stand.ended else ""
    then = f" and went on to {apart.one.stand.spot}" if apart.one.stand.waits else then
    cause = (
        f"{_nothing(one, empty)}: {'it' if len(empty) == 1 else 'they'} had no batch{then}, and "
        f"{listed(other.rank for other in apart.behind)} {wait} in {apart.first.stand.spot}"
        f"{', and died there' if died else ' for ever'}."
    )
    symptom = Symptom.CRASHED if died else Symptom.STUCK
    return _finding(case, one, cause, told(apart.stands), symptom)


def _fallen(case: Case, one: Empty, empty: list[Empty]) -> Finding:
    failure = one.main.failure
    words = said(failure) if failure is not None else ""
    cause = f"{_nothing(one, empty)}: its loop over the loader ran not once, and what comes after it raised {words}."
    return _finding(case, one, cause, [], Symptom.CRASHED)


def _nothing(one: Empty, empty: list[Empty]) -> str:
    total = f"the {one.shards.total:,} shards" if one.shards.total is not None else "the shards"
    total = "the only shard" if one.shards.total == 1 else f"none of {total}"
    ranks, _ = crew_size(one.main, one.loader)
    who = listed(each.main.rank or 0 for each in empty)
    if one.shards.samples:
        read = f"{many(one.shards.samples, 'sample')} of {many(one.shards.finished, 'shard')}"
        return f"{who[:1].upper()}{who[1:]} of {ranks} read {read}, and the pipeline left out every one of them"
    made = f" (WebDataset of {short(one.shards.where)})" if one.shards.where is not None else ""
    got = f"did not get {total}" if one.shards.total == 1 else f"got {total}"
    return f"{who[:1].upper()}{who[1:]} of {ranks} {got}{made}"


def _finding(case: Case, one: Empty, cause: str, stands: list[str], symptom: Symptom) -> Finding:
    return case.finding(
        one.main,
        cause=cause,
        seen=[*stands, *_seen(case, one)],
        remedy=_remedy(one),
        onset_s=next((each.ended for each in one.main.phases if each.loader == one.loader.number), None),
        where=one.shards.where or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=symptom.value,
    )


def _seen(case: Case, one: Empty) -> Iterator[str]:
    each = {main.rank: _of_rank(case, main, one.shards) for main in case.ranks[:8]}
    yield f"shards of each rank: {', '.join(f'rank {rank}: {count}' for rank, count in each.items())}"
    shared = f", shared out by {one.shards.splitter}" if one.shards.splitter else ""
    check = "" if one.shards.empty_check else "; empty_check is off, so that nothing was raised"
    yield f"the dataset was made at {line(one.shards.where)}{shared}{check}" if one.shards.where else f"shards{shared}"


def _of_rank(case: Case, main: Process, shards: Shards) -> int:
    """Of the list that was made at the same line."""
    lists = [each for one in readers(case, main) for each in one.shards if each.where == shards.where]
    known = [each.of_rank for each in lists if each.of_rank is not None]
    return known[-1] if known else sum(each.mine or 0 for each in lists)


def _remedy(one: Empty) -> Remedy:
    ranks, workers = crew_size(one.main, one.loader)
    if one.shards.samples:
        return Remedy(
            "Look at what the pipeline leaves out (select, a filter, a handler) and how the samples it keeps lie in "
            "the shards: mix them when shards are written, so that every shard has some of each kind. Until then, let "
            "every rank draw shards at random, `wds.WebDataset(urls, resampled=True, nodesplitter=None, …)"
            ".with_epoch(n)`, the same n everywhere."
        )
    return Remedy(
        f"Write the data into {ranks * workers:,} shards or a multiple of that, so that all {ranks} ranks "
        f"{f'and their {workers} workers each ' if workers > 1 else ''}have some; or let every rank draw shards at "
        "random, `wds.WebDataset(urls, resampled=True, nodesplitter=None, …).with_epoch(n)`, the same n everywhere. If "
        "this is validation, read all of it on every rank, `nodesplitter=None`. Leave empty_check on: it says so at "
        "once."
    )
