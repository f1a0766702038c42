"""The training loop waits for data more than it should.

## What it looks at
For each loader that is trained on: how long every `next()` took against how long the loop's body took, the first batch
of each pass left aside. Then what the time in the workers went into (the dataset's own code, collating, waiting for an
index), how much of it was processor time, and how many processors the training may use. Where stages of the work on
a sample are known (`unstuck.stage`; readers of numpy, torch and Pillow), it says which takes most, and whether that one
computes, reads or waits. Where the waits come in stripes, one long wait in as many batches as there are workers, it
says so: the workers started together and still work in step, so that their batches are ready at the same time. A larger
prefetch_factor only smooths that.

Of a run that nobody recorded, `unstuck why PID --seconds N` samples the stacks: how often the loop was met waiting for
data, and at which line of a sample its workers were met.

## Why it happens
Samples take longer to load than batches take to train on, and there are too few workers to hide it: too few processors,
a slow disk, a costly decode or augmentation; or `num_workers=0`, which loads every batch in the training process itself
while nothing else happens.

## What to do
What the evidence of this run points at: more workers while CPU cores are idle and workers are busy, cheaper samples
when all cores are in use, faster or nearer storage when workers wait rather than compute. All processes of the node
count by the CPU time that they used: every rank with its workers and threads, and other programs. What is advised to
one rank is done by all of them, so the idle cores are divided by their number. Where workers are started by spawn or
forkserver, which import everything again, they should stay from epoch to epoch (`persistent_workers=True`).

## How sure it is
Certain of the shares: they are measured over every step. It speaks from 30 % waiting and 2 ms a step on, in a loop of
at least ten batches and five seconds, so that a short trial, a warm-up or a small model on data in memory stays quiet.
Time in which the run was ready and other programs had the CPU cores is left out, by the kernel's count. A GPU that is
busy 90 % of the time has enough to do, whatever the loop waits for. Where that cannot be known (no utilisation rate, as
with MIG and ROCm, or a GPU that other processes use, too), it is only possible, and the evidence says so.
From samples it knows the same shares within a few per cent, of the seconds it looked at: it keeps quiet unless the loop
was seen to do something with its batches, and while the workers are only starting.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case, is_users
from ...analysis.cpu_contention import fair_waiting, left_out
from ...analysis.gpu import GPU_BUSY, gpu_use
from ...analysis.loading import Spread, handing, on_core, spread, stripes
from ...analysis.loading import fetching as fetching_of
from ...analysis.memory import oom_killed
from ...analysis.processors import queueing
from ...analysis.stacks import FETCHING, WAITING
from ...analysis.stages import in_words
from ...analysis.time_use import Loop, Time, loops
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...evidence.process import Process
from ...wording.text import duration, line, many, percent, short
from ..rule import Level, rule
from ._torchdata import is_of_nodes
from ._torchdata import remedy as remedy_of_nodes
from ._torchdata import why as why_of_nodes
from ._worker_count import ON_CORE, Room, advice, room, room_by_samples

SHARE = 0.3  # a GPU kept busy less than 70 % of the time is the usual mark of a loader that does not keep up
BATCHES = 10
SECONDS = 5.0  # of looping: below that, start-up effects are all there is
LONG = 0.002  # seconds of waiting a step: below that, handing a batch over from a worker would cost as much
SAMPLED = 1.0  # seconds of samples: fewer are an anecdote
IDLE = 0.5  # of the workers' time: if they rest that much, it is not their samples that take long
HANDING = "Handing batches over takes long: return fewer and larger tensors, and no views of big ones."
TOLD = 0.05  # of loading: less is not worth words
STARTED = 3.0  # seconds of age of the workers: before, the first batch is waited for, and that is no rate


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording|samples",), level=Level.ECHO)
def check(case: Case) -> Iterator[Finding]:
    yield from _recorded(case) if case.recording is not None else _sampled(case)


def _recorded(case: Case) -> Iterator[Finding]:
    for main, loader in case.training_loaders:
        loop = fair_waiting(case, main, loader)
        if loop.steps < BATCHES or loop.lasted < SECONDS or loop.share < SHARE or loop.waited < LONG * loop.steps:
            continue
        gpu = gpu_use(case, main)
        if (gpu.busy or 0.0) >= GPU_BUSY:  # it still has work while the main thread waits for more
            continue
        if oom_killed(case, [main, *case.workers_of(main, loader)]) is not None:
            continue  # more workers would take more memory: that there was too little comes first
        fetching, space = fetching_of(case, main, loader), room(case, main, loader)
        parts = _spread(case, main, loader, fetching)
        yield case.finding(
            main,
            cause=f"Training waits for data {percent(loop.share)} of the time: {_why(loader, fetching, space, parts)}",
            seen=[
                *_seen(loader, fetching, parts),
                *in_words(case, main, loader),
                *left_out(case, main, loader, loop),
                *gpu.words,
            ],
            remedy=_remedy(loader, fetching, space, parts),
            certainty=gpu.certainty,
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _spread(case: Case, main: Process, loader: Loader, fetching: list[Fetching]) -> Spread | None:
    """What loading goes into: computing, waiting for a CPU core by the kernel's count, other waiting."""
    share = on_core(fetching)
    loads = case.workers_of(main, loader) if loader.num_workers else [main]
    return None if share is None else spread(share, queueing(case, main, loads))


def _why(loader: Loader, fetching: list[Fetching], space: Room, parts: Spread | None) -> str:
    name = loader.name
    if is_of_nodes(loader):
        return f"{name} does not keep up, {why_of_nodes(loader)}."
    if space.is_full and space.most(loader.num_workers, parts) <= loader.num_workers:
        return f"{name} has no free CPU core to load with, {space.words}."
    if loader.num_workers == 0:
        return f"{name} has num_workers=0, so the training process loads every batch itself."
    busy = _busy(fetching)
    if busy < IDLE:
        rest = f"its workers fetch only {percent(busy)} of the time, so it is not the samples that take long"
        return f"{name} does not keep up, though {rest}."
    workers = "its only worker is" if loader.num_workers == 1 else f"its {loader.num_workers} workers are"
    return f"{name} does not keep up, though {workers} busy {percent(busy)} of the time.{_in_step(loader)}"


def _in_step(loader: Loader) -> str:
    """The pattern that people see: some steps run smoothly, then one stands still."""
    found = stripes(loader)
    if found is None:
        return ""
    return f" They work in step: one batch in {found.every} is waited for {duration(found.long)}."


def _busy(fetching: list[Fetching]) -> float:
    worked = sum(one.fetches.total for one in fetching)
    idle = sum(one.idle.total for one in fetching)
    return worked / (worked + idle) if worked else 0.0


def _parts(fetching: list[Fetching]) -> tuple[float, float, float]:
    """Seconds of fetching in all, in the dataset's own code, and in collating."""
    fetched = sum(one.fetches.total for one in fetching)
    collated = sum(one.collates.total for one in fetching)
    return fetched, max(fetched - collated, 0.0), collated


def _seen(loader: Loader, fetching: list[Fetching], parts: Spread | None) -> Iterator[str]:
    yield (
        f"a batch is waited for {duration(loader.waits.mean)} and trained on {duration(loader.bodies.mean)}, "
        f"over {many(loader.waits.count, 'step')}"
    )
    found = stripes(loader)
    if found is not None:
        yield (
            f"one batch in {found.every} is waited for {duration(found.long)}, those between for "
            f"{duration(found.between)}: as many as there are workers come at once, then none"
        )
    fetched, own, collated = _parts(fetching)
    count = sum(one.fetches.count for one in fetching)
    if not fetched or not count:
        return
    where = f" ({line(loader.reads_at)})" if is_users(loader.reads_at) else ""
    apart = f": {percent(own / fetched)} in the dataset's own code{where}, {percent(collated / fetched)} in collating"
    timed = any(one.collates.count for one in fetching)  # not where the dataset takes a batch as a whole
    yield f"loading a batch takes {duration(fetched / count)}{apart if timed else where}"
    if parts is not None:
        yield f"{percent(parts.computing)} of that is processor time{_off_core(parts)}"


def _off_core(parts: Spread) -> str:
    """What the rest is, as far as the kernel tells."""
    if parts.computing >= ON_CORE:
        return ""
    if parts.queued < TOLD:
        return ", the rest is waiting"
    rest = f", {percent(parts.blocked)} other waiting" if parts.blocked >= TOLD else ""
    return f", {percent(parts.queued)} waiting for a CPU core{rest}"


def _remedy(loader: Loader, fetching: list[Fetching], space: Room, parts: Spread | None) -> Remedy:
    if is_of_nodes(loader):
        return Remedy(remedy_of_nodes(loader, space.cpus))
    if loader.num_workers and _busy(fetching) < IDLE:
        elsewhere = "Look at what comes with each batch: the sampler, a batch_sampler, pin_memory."
        return Remedy(HANDING if handing(fetching) > SHARE else elsewhere)
    fetched, own, collated = _parts(fetching)
    count = sum(one.fetches.count for one in fetching)
    per_batch = fetched / count if count else 0.0
    place = short(loader.reads_at) if is_users(loader.reads_at) else "the dataset"
    return advice(
        loader,
        space,
        parts,
        workers=loader.num_workers,
        needed=ceil(per_batch / max(loader.bodies.mean, 1e-4)) + 1 if per_batch else loader.num_workers + 1,
        reason=f"loading a batch takes {duration(per_batch)}, training on it {duration(loader.bodies.mean)}",
        cheaper=f"make {'collating' if collated > own else place} cheaper",
    )


def _sampled(case: Case) -> Iterator[Finding]:
    for loop in loops(case):
        if loop.looked < SAMPLED or loop.waiting < SHARE or not loop.gets_on or not _at_work(loop):
            continue
        most = loop.line if loop.idle < IDLE else None
        yield case.finding(
            loop.main,
            cause=f"The loop at {short(loop.at)}{_of_rank(loop)} waits for data {percent(loop.waiting)} of the time: "
            f"{_sampled_why(loop)}",
            seen=list(_samples(loop)),
            remedy=_sampled_remedy(case, loop),
            where=most.where if most is not None else loop.at,
        )


def _of_rank(loop: Loop) -> str:
    return "" if loop.main.rank is None else f" of rank {loop.main.rank}"


def _at_work(loop: Loop) -> bool:
    """Its workers have been there for a while: neither just started, nor started anew all the time."""
    settled = [one for one in loop.workers if one.age >= STARTED]
    return loop.alone or len(settled) > len(loop.workers) - len(settled) + loop.started


def _sampled_why(loop: Loop) -> str:
    most = loop.line
    spot = f"{short(most.where)} ({most.where.function})" if most is not None and most.where is not None else ""
    if loop.alone:
        return f"it has num_workers=0 and loads every batch itself{f', mostly at {spot}' if spot else ''}."
    workers = "its only worker is" if len(loop.workers) == 1 else f"its {len(loop.workers)} workers are"
    if most is None or loop.idle >= IDLE:
        return f"{workers} idle {percent(loop.idle)} of the time, so it is not the samples that take long."
    return f"{workers} busy, {percent(most.seconds / loop.loaded)} of the time at {spot}."


def _samples(loop: Loop) -> Iterator[str]:
    rest = [one for one in loop.times if one.what not in (WAITING, FETCHING)][:2]
    others = "".join(f", {percent(one.seconds / loop.looked)} {one.what}" for one in rest)
    yield f"in {duration(loop.looked)} of samples: {percent(loop.waiting)} {WAITING}{others}"
    parts = ", ".join(f"{percent(one.seconds / loop.loaded)} {_part(one)}" for one in loop.loading[:3])
    yield f"{'loading' if loop.alone else 'the time of the workers'} goes into: {parts}"
    spent = loop.spread
    if spent is not None and loop.idle < IDLE:
        yield f"{percent(spent.computing)} of loading is processor time{_off_core(spent)}"


def _part(one: Time) -> str:
    return one.what if one.where is None else f"{line(one.where)} ({one.where.function})"


def _sampled_remedy(case: Case, loop: Loop) -> Remedy:
    if not loop.alone and loop.idle >= IDLE:
        tells = "Run it under `unstuck run`: the recording tells which batches are waited for."
        return Remedy(f"{f'{HANDING} ' if loop.handing > SHARE else ''}{tells}")
    return advice(
        None,
        room_by_samples(case, loop),
        loop.spread,
        workers=len(loop.workers),
        needed=loop.needed,
        reason=f"data is waited for {percent(loop.waiting)} of the time",
        cheaper=f"make {short(loop.line.where) if loop.line is not None else 'the samples'} cheaper",
    )
