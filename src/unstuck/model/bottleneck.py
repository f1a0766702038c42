"""Is data the bottleneck? One answer for a run, and what it rests on.

Where a GPU is there, it decides: the main thread may wait for data while the GPU is still busy with what it was given.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from .between import VALIDATION, Part
from .evidence import Evidence, Sample
from .loops import Loop, loops
from .phrases import duration, many, percent
from .questions import training_loaders
from .recorded import Loader, Process
from .report import Bottleneck
from .waiting import fetching, waiting

DATA, COMPUTE, BETWEEN, STARTING, BALANCED, UNKNOWN = (
    "data",
    "compute",
    "between steps",
    "start-up",
    "balanced",
    "unknown",
)
MUCH = 0.3  # of the loop: a GPU that is busy less than 70 % of the time is the usual mark of a loader that is too slow
LITTLE = 0.1  # of the loop: nothing is gained below that
BUSY, IDLE = 0.9, 0.7  # of the time, by a GPU: it is the limit, or something else is
BATCHES = 10
A_WHILE = 5.0  # seconds of looping: below that, start-up effects are all there is
START = 0.5  # of the time so far
RESTS = 0.5  # of the workers' time: then some of them have nothing to do
SPARE = 2  # workers beyond what the loading needs, for what takes longer now and then


class Shares(NamedTuple):
    """What the time of a loop went into."""

    waiting: float
    between: float
    most: Part | None  # of what lies between steps
    gpu: float | None


def bottleneck(evidence: Evidence) -> Bottleneck | None:
    """Of the loader that was trained on longest. None: there is no loop to tell it of."""
    found = training_loaders(evidence)
    if not found:
        return _sampled(evidence)
    main, loader = max(found, key=lambda one: waiting(one[1]).looped)
    waited = waiting(loader)
    begun = loader.first_at
    lasted = main.last_sign - main.opened
    if begun is not None and lasted >= A_WHILE and (begun - main.opened) >= START * lasted:
        text = f"Most of the time went into starting: the first batch came after {duration(begun - main.opened)}."
        return Bottleneck(STARTING, text, seen=_seen(evidence, main))
    if waited.steps < BATCHES or waited.looped < A_WHILE:
        return Bottleneck(UNKNOWN, f"Too short to tell: {many(waited.steps, 'step')} in {duration(waited.looped)}.")
    shares = Shares(waited.share, *_between(loader, waited.looped), gpu_busy(evidence, main))
    spare = _spare(evidence, main, loader, waited.looped) if shares.waiting < LITTLE else 0
    answer = _answer(shares)
    return Bottleneck(
        answer=answer,
        text=_text(answer, shares, spare, loader.num_workers),
        waiting=round(shares.waiting, 4),
        between=round(shares.between, 4),
        gpu=None if shares.gpu is None else round(shares.gpu, 3),
        spare_workers=spare,
        seen=_seen(evidence, main),
    )


def _answer(shares: Shares) -> str:
    if shares.gpu is not None and shares.gpu >= BUSY:
        return COMPUTE
    if shares.waiting >= MUCH or (shares.gpu is not None and shares.gpu < IDLE and shares.waiting >= LITTLE):
        return DATA if shares.waiting >= shares.between else BETWEEN
    if shares.between >= MUCH:
        return BETWEEN
    return COMPUTE if shares.waiting < LITTLE and shares.between < LITTLE else BALANCED


def _text(answer: str, shares: Shares, spare: int, workers: int) -> str:
    gpu = "" if shares.gpu is None else f", and the GPU is busy {percent(shares.gpu)} of it"
    waited = f"{percent(shares.waiting)} of the loop waits for data{gpu}"
    if answer == DATA:
        return f"Data is the limit: {waited}."
    if answer == BETWEEN and shares.most is not None:
        name = f" ({shares.most.name})" if shares.most.name else ""
        most = f"{percent(shares.between)} of the loop, most of it {shares.most.what}{name}"
        return f"What happens between steps is the limit: {most}."
    if answer == COMPUTE:
        given = f" {spare} of {many(workers, 'worker')} could be given back." if spare else ""
        return f"Data is not the limit, the loop's own work is: {waited}.{given}"
    return f"No single limit: {waited}, {percent(shares.between)} goes into what happens between steps."


def _between(loader: Loader, looped: float) -> tuple[float, Part | None]:
    """Validation inside a loop is what was asked for, and no loss."""
    parts = [one for one in loader.between if one.what != VALIDATION]
    total = loader.between_of.total
    if not parts or not total:
        return 0.0, None
    share = sum(one.seconds for one in parts) / total * loader.bodies.total / looped
    return min(share, 1.0), parts[0]


def _spare(evidence: Evidence, main: Process, loader: Loader, looped: float) -> int:
    """Workers that the loading would not have needed, by how long all of them together worked."""
    found = fetching(evidence, main, loader)
    worked = sum(one.fetches.total + one.handovers.total for one in found)
    idle = sum(one.idle.total for one in found)
    if loader.num_workers < SPARE + 1 or not worked or idle < RESTS * (worked + idle):
        return 0
    return max(loader.num_workers - ceil(worked / looped) - SPARE, 0)


def gpu_busy(evidence: Evidence, main: Process) -> float | None:
    """Share of the time in which the GPUs whose memory this process holds were busy, while it trained."""
    began = main.first_step if main.first_step is not None else main.opened
    found = [
        gpu.busy
        for sample in _samples(evidence, main)
        if began <= sample.at <= main.last_sign
        for gpu in sample.gpus
        if gpu.busy is not None and main.pid in gpu.processes
    ]
    return sum(found) / len(found) if found else None


def _seen(evidence: Evidence, main: Process) -> list[str]:
    """Processors, disk and pressure, as far as they were sampled."""
    samples, found = _samples(evidence, main), []
    cpus = next((one.cpus for one in evidence.host or () if one.node == main.node), 0)
    used = [sum(one.cpu or 0.0 for one in sample.processes) for sample in samples if _close(sample)]
    times = [sample.at for sample in samples if _close(sample)]
    if len(used) > 1 and times[-1] > times[0]:
        rate = max(max(used) - used[0], 0.0) / (times[-1] - times[0])
        found.append(f"{rate:.1f} of {many(cpus, 'processor')} in use")
    pressure = [one.pressure for one in samples if one.pressure is not None]
    if pressure:
        found.append(f"somebody waited for a disk {percent(sum(pressure) / len(pressure))} of the time")
    return found


def _close(sample: Sample) -> bool:
    return any(one.cpu is not None for one in sample.processes)


def _samples(evidence: Evidence, main: Process) -> list[Sample]:
    return [sample for host in evidence.host or () if host.node == main.node for sample in host.samples]


def _sampled(evidence: Evidence) -> Bottleneck | None:
    """Of a run that nobody recorded, by the samples of its stacks."""
    found = [one for one in loops(evidence) if one.gets_on]
    if not found:
        return None
    loop: Loop = max(found, key=lambda one: one.looked)
    shares = Shares(loop.waiting, 0.0, None, None)
    answer = _answer(shares)
    return Bottleneck(answer, _text(answer, shares, 0, len(loop.workers)), waiting=round(loop.waiting, 4))
