"""The way of every rank to its first step: stretch by stretch, what each did and, while one goes on, what moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..analysis.case import Case
from ..analysis.first_batch import feeding, on_the_way
from ..analysis.loading import worker_start
from ..analysis.passes import in_words, passing_over
from ..evidence.loader import COMPILE, Loader, LoaderState, Source
from ..evidence.process import Process, Step
from ..wording.text import duration, many, short, size

INTERPRETER, IMPORTS, MODEL, WORKERS = "interpreter", "imports", "model", "workers"
FIRST_SAMPLE, FIRST_BATCH, FIRST_STEP, OWN = "first sample", "first batch", "first step", "own code"
# Seconds that are usual for a training of some size. Only reading and tokenising have no such number: it depends on the
# data, and on what has to be there before the first batch is.
USUAL = {INTERPRETER: 2.0, IMPORTS: 15.0, MODEL: 10.0, WORKERS: 5.0, FIRST_STEP: 60.0}
APART = 0.3  # seconds between two stretches that deserve a line of their own
MUCH = 0.3  # of a run: a start that takes so much of it, and
LONG = 60.0  # seconds, is worth telling though all is well
WHOLE = 0.9  # of the time from its first beginning to its last end: then calls of one line are one stretch
MANY_RANKS = 8  # whose way is told


class Mark(NamedTuple):
    """Something that was reached."""

    name: str
    began: float | None  # None: when what was before it had ended
    ended: float
    told: str = ""


def timeline(case: Case) -> list[Step]:
    return [step for main in case.mains[:MANY_RANKS] for step in of_process(case, main)]


def way_to_first_step(step: Step) -> str:
    """`rank 0 has not come to its first step yet: first batch for 34 s; 12 samples loaded so far`."""
    whose = "" if step.rank is None else f"rank {step.rank}: "
    told = f"; {step.told}" if step.told else ""
    return f"{whose}not at its first step yet: {step.name} for {duration(step.seconds)}{told}"


def matters(steps: list[Step], ran: float) -> bool:
    """It goes on, or has taken a large part of a run that is no short trial."""
    taken = sum(one.seconds for one in steps if one.rank == steps[0].rank) if steps else 0.0
    return any(one.going_on for one in steps) or (taken >= LONG and taken >= MUCH * ran)


def of_process(case: Case, main: Process) -> Iterator[Step]:
    marks = sorted(_marks(case, main), key=lambda one: one.ended)
    at = main.started if main.started is not None else main.opened
    for mark in marks:
        began = max(at, mark.began) if mark.began is not None else at
        if began - at >= APART:
            yield Step(main.rank, OWN, round(at, 3), round(began - at, 3), told=_between(main, at, began))
        else:
            began = at
        if mark.name != OWN:
            lasted = round(max(mark.ended - began, 0.0), 3)
            yield Step(main.rank, mark.name, round(began, 3), lasted, told=_usual(mark, began))
        elif mark.ended - began >= APART:
            told = "; ".join(one for one in (mark.told, _between(main, began, mark.ended)) if one)
            yield Step(main.rank, OWN, round(began, 3), round(mark.ended - began, 3), told=told)
        else:
            continue  # too short to be told: it belongs to what comes next
        at = max(mark.ended, at)
    given = any(one.batches > 1 for one in main.loaders) and not passing_over(main)
    if main.first_step is None and not main.optimizer_steps and not given:
        yield from _going_on(case, main, at)


def _usual(mark: Mark, began: float) -> str:
    usual = USUAL.get(mark.name)
    much = f"usually at most {duration(usual)}" if usual is not None and mark.ended - began > usual else ""
    return "; ".join(one for one in (mark.told, much) if one)


def _marks(case: Case, main: Process) -> Iterator[Mark]:
    if main.imported is not None and main.imported <= main.opened:  # a child that was spawned is recorded later
        yield Mark(IMPORTS, main.started, main.imported, "Python, and all imports up to torch")
    elif main.started is not None:
        yield Mark(INTERPRETER, main.started, main.opened, "Python, and what is imported before torch")
    if main.imported is not None and main.imported > main.opened:
        yield Mark(IMPORTS, main.opened, main.imported, "import torch")
    yield from _calls(main)
    model = main.model
    if model is not None and (main.first_step is None or model.ended <= main.first_step):
        counted = f"{model.elements:,} parameters in {many(model.parameters, 'tensor')}"
        yield Mark(MODEL, model.at, model.ended, counted)
    loader = first_loader(main)
    if loader is not None:
        yield from _loader_marks(case, main, loader)
    if main.first_step is not None:
        yield Mark(FIRST_STEP, None, main.first_step, f"parameters on {main.device}" if main.device else "")


def _calls(main: Process) -> Iterator[Mark]:
    """Calls that are timed by themselves, such as wandb.init, if all of them were before the first step."""
    until = main.first_step if main.first_step is not None else main.last_sign
    for one in main.calls:
        lasted = one.last - one.at
        whole = one.timing.count and one.timing.total >= max(WHOLE * lasted, APART)
        if whole and one.since is None and one.last <= until and one.what != COMPILE:
            yield Mark(one.name or one.what, one.at, one.last, f"at {short(one.where)}" if one.where else "")


def first_loader(main: Process) -> Loader | None:
    """The loader that was asked for a batch first; if none was, the one that was made first."""
    begun = [one for one in main.loaders if one.began is not None]
    if begun:
        return min(begun, key=lambda one: one.began or 0.0)
    return min((one for one in main.loaders if one.made is not None), key=lambda one: one.made or 0.0, default=None)


def _loader_marks(case: Case, main: Process, loader: Loader) -> Iterator[Mark]:
    """What the main thread does for it: what workers do beside code of the user's holds nobody up."""
    if loader.made is not None:
        at = f" at {short(loader.created)}" if loader.created else ""
        yield Mark(OWN, None, loader.made, f"until a loader was made{at}")
    made, asked = _iterator_made(loader), _asked(loader)
    if loader.began is None or made is None or asked is None:
        return
    workers = worker_start(case, main, loader)
    apart = asked - made >= APART  # something else was done before a batch was asked for
    ready = asked if workers is None else workers.ready if apart else loader.began + workers.seconds
    if loader.num_workers or made - loader.began >= APART:
        most = f"most of it {workers.most}" if workers is not None and workers.seconds >= APART else ""
        told = "; ".join(one for one in (_started(loader), most) if one)
        yield Mark(WORKERS, loader.began, made if apart else max(ready, asked), told)
        if apart and ready - asked >= APART:
            yield Mark(WORKERS, asked, min(ready, loader.first_at or ready), told)
    sample = _first_sample(case, main, loader)
    if sample is not None and asked < sample <= (loader.first_at or sample):
        yield Mark(FIRST_SAMPLE, max(ready, asked), max(sample, ready))
    if loader.first_at is not None:
        looks = f"{loader.first_shapes} on {loader.first_device}" if loader.first_device else loader.first_shapes
        yield Mark(FIRST_BATCH, asked, loader.first_at, looks)


def _iterator_made(loader: Loader) -> float | None:
    """When the iterator of its first pass was there, workers included."""
    if loader.began is None:
        return None
    if loader.starts.count:
        made = loader.began + loader.starts.mean
        return made if not loader.first or loader.first_at is None else min(made, loader.first_at - loader.first[0])
    return loader.first_at - loader.first[0] if loader.first_at is not None and loader.first else None


def _asked(loader: Loader) -> float | None:
    """When its first batch was asked for: right after, or once something else was done."""
    if loader.first_at is not None and loader.first:
        return loader.first_at - loader.first[0]
    return (
        max(loader.now_since, _iterator_made(loader) or 0.0)
        if loader.now == LoaderState.WAITING
        else _iterator_made(loader)
    )


def _started(loader: Loader) -> str:
    how = f" by {loader.context}" if loader.context else ""
    drawn = loader.drawing.longest
    sampler = f"drawing the first indices took {duration(drawn)}" if drawn >= APART else ""
    workers = f"{many(loader.num_workers, 'worker')}{how}" if loader.num_workers else "no workers"
    return "; ".join(one for one in (workers, sampler) if one)


def _first_sample(case: Case, main: Process, loader: Loader) -> float | None:
    loading = case.workers_of(main, loader) if loader.num_workers else [main]
    return min((one.first_sample for one in loading if one.first_sample is not None), default=None)


def _between(main: Process, begun: float, ended: float) -> str:
    """What is known of a stretch in code of the user's."""
    group = main.group
    if group is not None and group.ended is not None and begun <= group.at and group.ended <= ended + APART:
        met = f"meeting the other ranks took {duration(group.ended - group.at)}"
        return "; ".join([met, *_sources(main, begun, ended)])
    return "; ".join(_sources(main, begun, ended))


def _sources(main: Process, begun: float, ended: float) -> list[str]:
    return [_source(one) for one in main.sources if one.items and one.at <= ended and one.last >= begun]


def _source(one: Source) -> str:
    made = f", {one.made:,} tokens" if one.made else ""
    return f"{one.name}: {one.items:,} {'rows' if one.kind == 'rows' else 'documents'}{made}"


def _going_on(case: Case, main: Process, at: float) -> Iterator[Step]:
    """The stretch that the first step has not come out of."""
    now = max(case.looked_at or 0.0, main.last_sign, at) if main.alive else main.ended or main.last_sign
    name, told = _stands(case, main)
    told = "; ".join([*(in_words(one) for one in passing_over(main)), *filter(None, [told])])
    if now > at:
        moving = "; ".join([told, *_moves(case, main)] if told else _moves(case, main))
        yield Step(main.rank, name, at, round(now - at, 3), going_on=main.alive, told=moving)


def _stands(case: Case, main: Process) -> tuple[str, str]:
    loader = first_loader(main)
    if main.started is not None and main.imported is None and main.threads_at_fork is None and not main.loaders:
        return IMPORTS, ""
    if loader is None or loader.began is None or loader.now == LoaderState.ABOUT_TO_ASK:
        return OWN, ""
    if loader.first_at is not None:
        return FIRST_STEP, ""
    if _iterator_made(loader) is None:
        return WORKERS, _started(loader)
    sample = _first_sample(case, main, loader)
    return (FIRST_SAMPLE if sample is None else FIRST_BATCH), _loaded(case, main, loader)


def _loaded(case: Case, main: Process, loader: Loader) -> str:
    """They are counted with each batch."""
    loading = case.workers_of(main, loader) if loader.num_workers else [main]
    samples = sum(one.samples for process in loading for one in process.fetching)
    if not samples and any(one.first_sample is not None for one in loading):
        return "samples come, but no batch is complete"
    return f"{many(samples, 'sample')} loaded so far"


def _moves(case: Case, main: Process) -> list[str]:
    """Counters that tell a slow start from one that stands: what was told, read and computed meanwhile."""
    told = on_the_way(feeding(case, main))
    host = case.host_of(main)
    seen = [one for sample in (host.samples if host else ()) for one in sample.processes if one.pid == main.pid]
    read = [one.read for one in seen if one.read is not None]
    cpu = [one.cpu for one in seen if one.cpu is not None]
    told += [f"{size(read[-1])} read"] if read and read[-1] else []
    return told + ([f"{duration(cpu[-1])} of CPU time"] if cpu and cpu[-1] else [])
