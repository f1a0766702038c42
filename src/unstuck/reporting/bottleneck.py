"""Is data the bottleneck? One answer for a run, and what it rests on.

Where a GPU is there, it decides: the main thread may wait for data while the GPU is still busy with what it was given.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import msgspec

from ..analysis.case import Case
from ..analysis.cpu_contention import fair_waiting
from ..analysis.glances import Writing, own_waiting, writing
from ..analysis.gpu import GPU_BUSY, GPU_IDLE, gpu_use, samples_of
from ..analysis.loading import fetching, waiting
from ..analysis.time_use import Loop, loops
from ..evidence import Sample
from ..evidence.basics import Place
from ..evidence.loader import FIRST_BATCH, LOGGER, OTHER_LOADER, VALIDATION, Gap, Loader, Part
from ..evidence.process import Process
from ..report import Bottleneck
from ..wording.text import duration, many, percent, short
from .start import of_process

DATA, COMPUTE, BETWEEN, STARTING_UP, BALANCED, UNKNOWN = (
    "data",
    "compute",
    "between steps",
    "start-up",
    "balanced",
    "unknown",
)
MUCH = 0.3  # of the loop: a GPU that is busy less than 70 % of the time is the usual mark of a loader that is too slow
LITTLE = 0.1  # of the loop: nothing is gained below that
BATCHES = 10
A_WHILE = 5.0  # seconds of looping: below that, start-up effects are all there is
START = 0.5  # of the time so far
LONG, TIMES = 1.0, 5  # seconds, and times the usual: a body that takes so long does something else than the others
RESTS = 0.5  # of the workers' time: then some of them have nothing to do
SPARE = 2  # workers beyond what the loading needs, for what takes longer now and then


class Shares(NamedTuple):
    """What the time of a loop went into."""

    waiting: float
    between: float
    most: Part | None  # of what lies between steps
    gpu: float | None


def bottleneck(case: Case) -> Bottleneck | None:
    """Of the loader that was looped over longest, of those that were trained on if it is known of any."""
    found = case.training_loaders or [
        (main, loader) for main in case.mains for loader in main.loaders if loader.batches
    ]
    if not found:
        return _sampled(case)
    if case.stall is not None:
        return Bottleneck(UNKNOWN, "The run makes no progress: what limited it before does not matter now.")
    main, loader = max(found, key=lambda one: waiting(one[1]).looped)
    loop = _of_loop(case, main, loader)
    if loop.answer in (DATA, BETWEEN):
        return loop
    return _of_start(case, main, loader) or loop


def _of_start(case: Case, main: Process, loader: Loader) -> Bottleneck | None:
    begun, lasted = loader.first_at, main.last_sign - main.opened
    if begun is None or lasted < A_WHILE or begun - main.opened < START * lasted:
        return None
    most = max((one for one in of_process(case, main)), key=lambda one: one.seconds, default=None)
    what = f", {duration(most.seconds)} of it {most.name}" if most is not None and most.seconds >= LONG else ""
    text = f"Most of the time was start-up: the first batch came after {duration(begun - main.opened)}{what}."
    return Bottleneck(STARTING_UP, text, seen=_seen(case, main))


def _of_loop(case: Case, main: Process, loader: Loader) -> Bottleneck:
    waited = fair_waiting(case, main, loader)
    if not waited.steps and waited.taken:
        return Bottleneck(
            UNKNOWN, "Other programs used the CPU cores nearly all of the time, so nothing else can be told."
        )
    if waited.steps < BATCHES or waited.lasted < A_WHILE:
        return Bottleneck(UNKNOWN, f"Too short to tell: {many(waited.steps, 'step')} in {duration(waited.lasted)}.")
    gpu = gpu_use(case, main)
    shares = Shares(waited.share, *_between(case, main, loader, waited.lasted), gpu.busy)
    spare = _spare(case, main, loader, waited.lasted) if shares.waiting < LITTLE else 0
    answer = _answer(shares)
    text = _text(answer, shares, spare, loader.num_workers)
    if answer == DATA and gpu.unknown:  # the body of a loop may only launch what a GPU is then busy with
        answer, text = (
            UNKNOWN,
            f"Data may be the bottleneck: {percent(shares.waiting)} of the loop waits for data; {gpu.words[0]}.",
        )
    return Bottleneck(
        answer=answer,
        text=text,
        waiting=round(shares.waiting, 4),
        between=round(shares.between, 4),
        gpu=None if shares.gpu is None else round(shares.gpu, 3),
        spare_workers=spare,
        seen=_seen(case, main),
    )


def _answer(shares: Shares) -> str:
    if shares.gpu is not None and shares.gpu >= GPU_BUSY:
        return COMPUTE
    if shares.waiting >= MUCH or (shares.gpu is not None and shares.gpu < GPU_IDLE and shares.waiting >= LITTLE):
        return DATA if shares.waiting >= shares.between else BETWEEN
    if shares.between >= MUCH:
        return BETWEEN
    return COMPUTE if shares.waiting < LITTLE and shares.between < LITTLE else BALANCED


def _text(answer: str, shares: Shares, spare: int, workers: int) -> str:
    gpu = "" if shares.gpu is None else f", and the GPU is busy {percent(shares.gpu)} of it"
    waited = f"{percent(shares.waiting)} of the loop waits for data{gpu}"
    if answer == DATA:
        return f"Data is the bottleneck: {waited}."
    if answer == BETWEEN and shares.most is not None:
        name = f" ({shares.most.name})" if shares.most.name else ""
        spot = f" at {short(shares.most.where)}" if shares.most.where is not None else ""
        most = f"{percent(shares.between)} of the time, most of it {shares.most.what}{name}{spot}"
        return f"Work between batches is the bottleneck: {most}."
    if answer == COMPUTE:
        given = f" {spare} of {many(workers, 'worker')} could be dropped." if spare else ""
        return f"Data is not the bottleneck, the training step is: {waited}.{given}"
    return f"No single bottleneck: {waited}, {percent(shares.between)} is spent between steps."


def _between(case: Case, main: Process, loader: Loader, looped: float) -> tuple[float, Part | None]:
    """Share of the time from batch to batch, and what most of it was. Validation is what was asked for, and no loss."""
    bodies, told = loader.bodies.total, loader.between_of.total
    scale = bodies / told if told else 1.0  # the recording has details of the newest only
    parts = [msgspec.structs.replace(one, seconds=one.seconds * scale) for one in _lost(loader.between)]
    long = max(LONG, TIMES * loader.between_of.p50)
    parts += _waits(case, main, [one for one in loader.gaps if one.seconds >= long])
    parts += [one for gap in loader.boundaries for one in _lost(gap.parts)]
    parts += _waits(case, main, loader.boundaries)
    parts += [_printing(one, bodies) for one in writing(case) if one.main is main]
    whole = looped + sum(one.seconds for one in loader.boundaries)
    added: dict[tuple[str, str, Place | None], float] = {}
    for one in parts:
        key = one.what, one.name, one.where
        added[key] = added.get(key, 0.0) + one.seconds
    if not added:
        return 0.0, None
    most = max(added, key=lambda key: added[key])
    return min(sum(added.values()) / whole, 1.0), Part(most[0], most[1], added[most], where=most[2])


def _lost(parts: list[Part]) -> list[Part]:
    return [one for one in parts if one.what not in (VALIDATION, OTHER_LOADER, FIRST_BATCH)]


def _waits(case: Case, main: Process, gaps: list[Gap]) -> list[Part]:
    found = own_waiting(case, main, gaps)
    return [] if found is None else [found]


def _printing(one: Writing, bodies: float) -> Part:
    return Part(LOGGER, f"waiting until {one.target} takes what is written", one.share * bodies, where=one.where)


def _spare(case: Case, main: Process, loader: Loader, looped: float) -> int:
    """Workers that the loading would not have needed, by how long all of them together worked."""
    found = fetching(case, main, loader)
    worked = sum(one.fetches.total + one.handovers.total for one in found)
    idle = sum(one.idle.total for one in found)
    if loader.num_workers < SPARE + 1 or not worked or idle < RESTS * (worked + idle):
        return 0
    return max(loader.num_workers - ceil(worked / looped) - SPARE, 0)


def _seen(case: Case, main: Process) -> list[str]:
    """Processors, disk and pressure, as far as they were sampled."""
    samples, found = samples_of(case, main), []
    cpus = next((one.cpus for one in case.host or () if one.node == main.node), 0)
    used = [sum(one.cpu or 0.0 for one in sample.processes) for sample in samples if _close(sample)]
    times = [sample.at for sample in samples if _close(sample)]
    if len(used) > 1 and times[-1] > times[0]:
        rate = max(max(used) - used[0], 0.0) / (times[-1] - times[0])
        found.append(f"{rate:.1f} of {many(cpus, 'CPU core')} in use")
    pressure = [one.pressure for one in samples if one.pressure is not None]
    if pressure:
        found.append(f"a process waited for a disk {percent(sum(pressure) / len(pressure))} of the time")
    return found


def _close(sample: Sample) -> bool:
    return any(one.cpu is not None for one in sample.processes)


def _sampled(case: Case) -> Bottleneck | None:
    """Of a run that nobody recorded, by the samples of its stacks."""
    found = [one for one in loops(case) if one.gets_on]
    if not found:
        return None
    loop: Loop = max(found, key=lambda one: one.looked)
    shares = Shares(loop.waiting, 0.0, None, None)
    answer = _answer(shares)
    return Bottleneck(answer, _text(answer, shares, 0, len(loop.workers)), waiting=round(loop.waiting, 4))
