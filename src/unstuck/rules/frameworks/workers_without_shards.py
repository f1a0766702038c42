"""The stream has fewer shards than the loader has workers, so some workers never load anything.

## What it looks at
For each worker of the loader's newest pass: how many shards of the stream it was given, as the library itself counts
them (Hugging Face datasets), and how much the loop waits for data. Before a run, `unstuck check --ranks --workers`: the
number of parquet, arrow or JSON files against both.

## Why it happens
The library gives every worker whole shards of its own: a file, or a piece of the dataset. Where there are fewer shards
than workers, the rest come to the end of their stream at once and wait. With ranks it is the shards of one
rank that count. `interleave_datasets` has only as many as its smallest source; some versions of datasets have only one
after `shuffle()`; a single large file is one shard, however large it is.

## What to do
Have at least as many shards as ranks times workers, best a multiple of it: `to_iterable_dataset(num_shards=…)`, more
and smaller files, `reshard()`. Or take as many workers as there are shards: the others only cost memory.

## How sure it is
Certain of the shards: they are counted in the workers. It speaks where the loop waits for data 30 % of the time: idle
workers of a loader that keeps up harm nobody. Before a run nobody knows that yet, nor how a loader deals out the files:
it then speaks of one that gives out whole ones. Where it cannot be known whether a GPU was busy meanwhile, it is only
possible.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.gpu import GPU_BUSY, gpu_use
from ...analysis.loading import ShardlessCrew, computes, fetching, waiting, without_shards
from ...analysis.passes import each_once
from ...analysis.shards import TABLES, TooFew, too_few
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.printable import printable
from ...wording.settings import settings
from ...wording.text import many, percent
from ..rule import rule

INTERLEAVED = "interleave_datasets"
SHOWN = 8  # workers that are named one by one


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording|data",))
def check(case: Case) -> Iterator[Finding]:
    few = too_few(case, TABLES)
    if few is not None:
        yield _ahead(case, few)
    yield from each_once(_judge(case, main, loader) for main in case.mains for loader in main.loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    crew = without_shards(case, main, loader)
    gpu = gpu_use(case, main)
    if crew is None or not waiting(loader).matters or (gpu.busy or 0.0) >= GPU_BUSY:
        return None
    first, count = crew.idle[0], len(crew.idle)
    return case.finding(
        first,
        cause=f"{count} of the {len(crew.workers)} workers of {loader.name} {'has' if count == 1 else 'have'} "
        f"nothing to do: the stream has only {many(_shards(crew), 'shard')}{_of_rank(crew)}, and a worker takes whole "
        f"ones. The loop waits for data {percent(waiting(loader).share)} of the time.",
        seen=[*_seen(case, crew), *gpu.words],
        remedy=_remedy(case, crew),
        certainty=gpu.certainty,
        onset_s=loader.began,
        where=loader.created,
        subject=Subject("loader", loader.name),
    )


def _shards(crew: ShardlessCrew) -> int:
    return crew.shards.of_rank or len(crew.workers) - len(crew.idle)


def _of_rank(crew: ShardlessCrew) -> str:
    ranks = crew.shards.ranks or 1
    if ranks == 1 or crew.shards.total is None:
        return ""
    every = crew.shards.total == crew.shards.of_rank
    whose = f"of which every rank reads one sample in {ranks}" if every else f"for each of {ranks} ranks"
    return f" {whose}" if every else f" {whose} ({crew.shards.total:,} in all)"


def _seen(case: Case, crew: ShardlessCrew) -> Iterator[str]:
    parts = [f"worker {one.worker}: {_mine(one)}" for one in crew.workers[:SHOWN]]
    yield f"shards of each worker: {', '.join(parts)}"
    samples = {one.pid: sum(each.samples for each in one.fetching) for one in crew.workers}
    brought = [f"worker {one.worker}: {samples[one.pid]:,}" for one in crew.workers[:SHOWN]]
    yield f"samples that each brought: {', '.join(brought)}"
    worked = fetching(case, crew.main, crew.loader)
    total, idle = sum(one.fetches.total for one in worked), sum(one.idle.total for one in worked)
    if total:
        yield f"those that have shards are loading {percent(total / (total + idle))} of their time"
    if INTERLEAVED in crew.shards.steps:
        yield f"{INTERLEAVED} has as many shards as the smallest of its sources"


def _mine(worker: Process) -> str:
    return str(sum(one.mine or 0 for one in worker.shards))


def _remedy(case: Case, crew: ShardlessCrew) -> Remedy:
    shards, workers, ranks = _shards(crew), len(crew.workers), crew.shards.ranks or 1
    fewer = f"{settings(crew.loader, num_workers=shards)} loads as fast as now and needs less memory"
    host = case.host_of(crew.main)
    if host is not None and 0 < host.cpus <= shards * ranks and computes(case, crew.main, crew.loader):
        return Remedy(
            f"Set {fewer}: the {many(shards, 'worker')} that load already use the {many(host.cpus, 'processor')}, so "
            "more shards would not help. Make the samples cheaper, or prepare them beforehand."
        )
    return Remedy(f"{_more(crew, workers * ranks)}, so that all {workers} workers load. Or {fewer}.")


def _more(crew: ShardlessCrew, wanted: int) -> str:
    """How more shards are had from this source."""
    steps = crew.shards.steps
    if INTERLEAVED in steps:
        return f"Give every source of {INTERLEAVED} at least {wanted:,} shards"
    if "to_iterable_dataset" in steps:
        return f"Call to_iterable_dataset(num_shards={wanted}), or with a multiple of that"
    if "generator" in steps:
        return f"Hand the generator a list of {wanted:,} pieces or more, gen_kwargs={{'shards': […]}}"
    return f"Split the data into {wanted:,} files or more, or try dataset.reshard(), which takes Parquet by row groups"


def _ahead(case: Case, few: TooFew) -> Finding:
    """Nothing runs yet."""
    count, ranks = len(few.files), f"{few.ranks} ranks with " if few.ranks > 1 else ""
    crew = f"{ranks}{many(few.workers, 'worker')}{' each' if ranks else ''}"
    return case.finding(
        cause=f"There {'is' if count == 1 else 'are'} only {many(count, 'file')} for {crew}: where every worker gets "
        f"whole files of its own, {few.idle} of {few.readers} {'has' if few.idle == 1 else 'have'} nothing to do.",
        seen=[f"{many(count, 'file')}: {', '.join(printable(one.path) for one in few.files[:4])}{', …' * (count > 4)}"],
        remedy=Remedy(
            f"Split the data into {few.readers:,} files or a multiple of that. Or take fewer workers: those without a "
            "file only cost memory."
        ),
        subject=Subject("file", few.files[0].path),
    )
