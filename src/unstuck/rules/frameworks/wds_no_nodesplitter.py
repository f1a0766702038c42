"""webdataset was not told how to share its shards out over the ranks: it refuses to begin, or all read the same.

## What it looks at
The exception that ended the training: it was raised by webdataset's own `single_node_only`. And the list of shards: how
many there are, for how many ranks and workers, and the line that made the dataset. Where nothing is raised: whether the
first batches of several ranks that train together have the same content, out of shards that were not shared out.

## Why it happens
`WebDataset(...)` shares shards out over the workers of one process by itself. Over ranks it does not guess: as soon as
there are two (WORLD_SIZE, or a process group), its default, `single_node_only`, raises at the first sample. A script
that ran on one GPU meets this on its first start with torchrun, Slurm or a Trainer with devices=2.

A `wds.DataPipeline` has no such guard: without `wds.split_by_node` every rank trains on everything, and more ranks make
an epoch no shorter. So it is with `nodesplitter=None`, and with `split_by_node` in processes that do not know of ranks:
it asks the process group, which workers do not have, or RANK and WORLD_SIZE.

## What to do
Say it: `nodesplitter=wds.split_by_node`, if there are at least as many shards as ranks times workers; every rank then
has its own. Or `resampled=True, nodesplitter=None` with `.with_epoch(n)`: every rank draws shards at random, and all
have epochs of the same length; `resampled=True` alone raises the same. `nodesplitter=None` alone makes every rank read
everything.

## How sure it is
Certain where it is raised: it is the only thing that this function of the library does. Else it speaks only of models
in DistributedDataParallel whose ranks were seen to begin with the same batches in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed
from ...analysis.shards import SPLIT, Refused, Same, crew_size, refused, same_on_ranks, without
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import line, many, said, short
from ..rule import rule

RAISES = "single_node_only"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = refused(case, RAISES)
    if found is None:
        same = same_on_ranks(case)
        yield from [_same(case, same)] if same is not None else []
        return
    one, shards = found.raised, found.shards
    ranks, _ = crew_size(one.main, one.loader)
    where = shards.where if shards is not None else None
    made = f" ({short(where)})" if where is not None else ""
    over = f"the {ranks} ranks" if ranks > 1 else "several ranks"
    yield case.finding(
        one.process,
        cause=f"The WebDataset{made} has no nodesplitter: it was not told how to share its {_count(found)} out over "
        f"{over}, and raises instead of giving all of them the same.",
        seen=list(_seen(found)),
        remedy=_remedy(found),
        onset_s=one.failure.at,
        where=where or (one.loader.created if one.loader is not None else None),
        subject=Subject("loader", one.loader.name) if one.loader is not None else None,
    )


def _same(case: Case, one: Same) -> Finding:
    ranks, shards = listed(each.rank or 0 for each in one.mains), one.shards
    made = f" ({short(shards.where)})" if shards.where is not None else ""
    why = f"the pipeline{made} does not share its {many(shards.total or 0, 'shard')} out over the ranks"
    if shards.splitter == SPLIT:
        why = f"{SPLIT} of the pipeline{made} shares nothing out, because the processes that read know of no other rank"
    return case.finding(
        one.mains[0],
        cause=f"{ranks[:1].upper()}{ranks[1:]} train on the same samples in the same order: {why}.",
        seen=[
            f"the first {many(one.batches, 'batch')} of these ranks have the same content",
            f"each reads all {many(shards.total or 0, 'shard')}"
            + (f"; the dataset was made at {line(shards.where)}" if shards.where is not None else ""),
        ],
        remedy=_share_out(one),
        where=shards.where or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=Symptom.WRONG.value,
    )


def _share_out(one: Same) -> Remedy:
    world = one.mains[0].world
    if one.shards.splitter == SPLIT:
        return Remedy(
            'Set os.environ["RANK"] and os.environ["WORLD_SIZE"] in every rank before its loader is made, as torchrun '
            f"does: workers have no process group to ask. Each of the {world} ranks then reads its part."
        )
    return Remedy(
        "Put wds.split_by_node behind the list of shards, before wds.split_by_worker (of a WebDataset: "
        f"nodesplitter=wds.split_by_node): each of the {world} ranks then reads its part. Or draw shards at random on "
        "every rank, wds.ResampledShards(urls) in place of the list, with the same .with_epoch(n) everywhere."
    )


def _count(found: Refused) -> str:
    total = found.shards.total if found.shards is not None else None
    return "shards" if total is None else many(total, "shard")


def _seen(found: Refused) -> Iterator[str]:
    one = found.raised
    yield f"{said(one.failure)} ({one.by})"
    if found.shards is not None and found.shards.where is not None:
        yield f"the dataset was made at {line(found.shards.where)}"
    ranks, workers = crew_size(one.main, one.loader)
    yield (
        f"{many(ranks, 'rank')} with {many(workers, 'process')} each that would read"
        if ranks > 1
        else ("the library sees more than one rank")
    )


def _remedy(found: Refused) -> Remedy:
    """With its numbers: where shards do not go round, sharing them out would only move the error."""
    ranks, workers = crew_size(found.raised.main, found.raised.loader)
    total = found.shards.total if found.shards is not None else None
    share = "wds.WebDataset(urls, nodesplitter=wds.split_by_node, …)"
    draw = "wds.WebDataset(urls, resampled=True, nodesplitter=None, …).with_epoch(n)"
    if found.shards is not None and found.shards.resampled:
        return Remedy(
            f"Add nodesplitter=None: `{draw}`. Shards are drawn at random on every rank, so nothing has to be shared "
            "out; with the same n on every rank, all have epochs of the same length."
        )
    if total is None or ranks == 1:
        return Remedy(f"Make it with `{share}`, or draw shards at random on every rank, `{draw}`.")
    short_of = without(total, ranks, workers)
    if short_of:
        return Remedy(
            f"Draw shards at random on every rank, `{draw}`. Sharing them out, `nodesplitter=wds.split_by_node`, needs "
            f"more shards: {total:,} for {ranks} ranks with {many(workers, 'worker')} each leave "
            f"{many(short_of, 'process')} without any."
        )
    uneven = total % (ranks * workers)
    text = (
        f"Make it with `{share}`: each of the {ranks} ranks then reads {_each(total, ranks)} of the {total:,} shards."
    )
    if uneven:
        text += (
            f" {total:,} is no multiple of {ranks * workers}, so epochs end unevenly: put `.with_epoch(n)` behind the "
            "loader, with the same n on every rank."
        )
    return Remedy(f"{text} Or draw shards at random on every rank, `{draw}`.")


def _each(total: int, ranks: int) -> str:
    least, most = total // ranks, -(-total // ranks)
    return f"{least:,}" if least == most else f"{least:,} or {most:,}"
