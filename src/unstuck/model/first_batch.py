"""The first batch of a loader, or of a generator that is none: how long it took, and how long those after it."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from .evidence import Evidence
from .feeding import Feeding, feeding
from .questions import host_of
from .recorded import Fetching, Loader, Process
from .told import Progress
from .waiting import fetching
from .worker_start import worker_start

ENDED_WELL = 0
WAITS, ABOUT_TO = "waiting for a batch", "about to ask for a batch"  # as the recording says what a loader is at
LATELY = 10.0  # seconds: what has brought nothing for so long may just as well stand
STOOD = 1.5  # times the first: a wait that is so much longer is no usual one
GROWN = 4 << 20  # bytes in that time: more than an interpreter takes for itself


class First(NamedTuple):
    """The first batch, and what came after it. Neither starting workers nor the first step is part of it."""

    fed: Feeding
    began: float  # when it was asked for, and there was somebody to load it
    seconds: float  # that it took, or has taken so far
    came: bool
    of: float  # seconds from when it was asked for to the end, or to now
    later: float | None  # seconds for each batch after it; None: there was none
    others: int  # how many those were
    later_share: float  # of the time after it that went into getting batches
    moves: bool = True  # something was read, loaded or made lately
    sampled: bool = True  # a sample of it was loaded
    loader: Loader | None = None  # None: a generator of the user's own
    loads: tuple[Fetching, ...] = ()  # who loaded it, of a loader

    @property
    def each(self) -> float | None:
        """Seconds that one of those after it took to load: where several are loaded at a time, they come that often."""
        workers = max(self.loader.num_workers, 1) if self.loader is not None else 1
        return None if self.later is None else self.later * workers


def first_batch(evidence: Evidence, process: Process) -> First | None:
    """None: nothing is known of it."""
    fed = feeding(evidence, process)
    loader = _loader(process)
    if loader is not None:
        return _of_loader(evidence, process, loader, fed)
    return _of_generator(evidence, process, fed) if fed.began is not None else None


def now(evidence: Evidence, process: Process) -> float:
    """Of a process that is alive: when it was looked at, or the newest that is known of anything."""
    if process.ended is not None:
        return process.ended
    host = host_of(evidence, process)
    sampled = host.samples[-1].at if host is not None and host.samples and process.alive else 0.0
    looked = evidence.looked_at or 0.0 if process.alive else 0.0
    return max(looked, sampled, process.last_sign)


def _loader(process: Process) -> Loader | None:
    """The one that is trained on; before the first step, the one that was asked last."""
    asked = [one for one in process.loaders if one.passes or one.batches or one.began is not None]
    trained = [one for one in asked if one.optimizer_steps]
    if trained:
        return min(trained, key=lambda one: one.number)
    return max(asked, key=lambda one: one.now_since, default=None)


def _of_loader(evidence: Evidence, process: Process, loader: Loader, fed: Feeding) -> First | None:
    end, loads = now(evidence, process), tuple(fetching(evidence, process, loader))
    if not loader.batches:
        if process.ended is not None and evidence.run.status == ENDED_WELL:
            return None  # it had none to give
        if loader.now == ABOUT_TO:
            return None  # an import, a logger, the model: nobody waits for its first batch yet
        sampled = _sampled(evidence, process, loader)
        asked = loader.now_since if loader.began is None or loader.now == WAITS else loader.began
        began = _ready(evidence, process, loader, asked)
        taken = max(end - began, 0.0)
        moves = _moves(evidence, process, fed, sampled, end)
        return First(fed, began, taken, came=False, of=taken, later=None, others=0, later_share=0.0, loader=loader,
                     moves=moves, sampled=bool(sampled), loads=loads)  # fmt: skip
    took = loader.first[0] if loader.first else loader.first_waits.longest
    came = loader.first_at if loader.first_at is not None else _came(loader, end)
    began = min(_ready(evidence, process, loader, came - took), came)
    waits, looped = loader.waits, loader.waits.total + loader.bodies.total
    share = waits.total / looped if looped else 0.0
    return First(fed, began, came - began, came=True, of=max(end - began, came - began), later=_later(loader, took),
                 others=waits.count, later_share=share, loader=loader, loads=loads)  # fmt: skip


def _ready(evidence: Evidence, process: Process, loader: Loader, asked: float) -> float:
    """When its workers could load, if that was later."""
    started = worker_start(evidence, process, loader)
    return asked if started is None or loader.began is None else max(asked, loader.began + started.seconds)


def _came(loader: Loader, end: float) -> float:
    """About when: what came after it is known by its length."""
    return max(end - loader.waits.total - loader.bodies.total, 0.0)


def _later(loader: Loader, first: float) -> float | None:
    """Most of them: of as many in a row as there are workers, which come at once. Else the mean, but not of one."""
    waits, again, row = loader.waits, loader.first_waits, max(loader.num_workers, 1)
    newest = loader.recent_waits
    if len(newest) == waits.count and len(newest) >= 2 * row:
        return median(sum(newest[at : at + row]) for at in range(len(newest) - row + 1)) / row
    if waits.count > 1 and waits.longest > STOOD * first:
        return (waits.total - waits.longest) / (waits.count - 1)
    if waits.count:
        return waits.mean
    return (again.total - again.longest) / (again.count - 1) if again.count > 1 else None


def _sampled(evidence: Evidence, process: Process, loader: Loader) -> list[float]:
    """When the newest samples were begun, by those who have loaded one before."""
    loading = evidence.workers_of(process, loader) if loader.num_workers else [process]
    return [one.now_since for each in loading if each.first_sample is not None for one in each.fetching]


def _moves(evidence: Evidence, process: Process, fed: Feeding, sampled: list[float], end: float) -> bool:
    newest = max([fed.newest, *sampled])
    return (end - newest < LATELY and newest > 0) or _grows(evidence, process, end)


def _grows(evidence: Evidence, process: Process, end: float) -> bool:
    """It and its workers hold more than a while ago: an index, a buffer or a cache is being filled."""
    host = host_of(evidence, process)
    crew = {process.pid, *(pid for one in process.loaders for pid in one.pids)}
    held = [
        sum(one.anonymous for one in sample.processes if one.pid in crew)
        for sample in (host.samples if host is not None else ())
        if end - LATELY <= sample.at <= end
    ]
    return len(held) > 1 and held[-1] - held[0] >= GROWN


def _of_generator(evidence: Evidence, process: Process, fed: Feeding) -> First | None:
    """Only where it goes on asking: who tokenises everything before he trains has no first batch to wait for."""
    first, last, steps = process.first_step, process.last_step, process.optimizer_steps
    if not fed.sources:
        fed = fed._replace(progress=[one for one in fed.progress if _is_filled(one, first)])
    asks = fed.buffer is not None or any(one.later for one in process.sources)
    began, end = fed.began, now(evidence, process)
    if began is None or not asks:
        return None
    if not steps or first is None or last is None:
        unknown = process.ended is not None and evidence.run.status == ENDED_WELL  # it may train without an optimizer
        taken = end - began
        return None if steps or unknown else First(fed, began, taken, came=False, of=taken, later=None, others=0,
                                                   later_share=0.0, moves=end - fed.newest < LATELY)  # fmt: skip
    spent = sum(one.later for one in process.sources)
    later = (last - first) / (steps - 1) if steps > 1 else None
    share = spent / (last - first) if last > first else 0.0
    took = max(min(fed.filled(first), first) - began, 0.0)
    return First(fed, began, took, came=True, of=end - began, later=later, others=steps - 1, later_share=share)


def _is_filled(one: Progress, first_step: float | None) -> bool:
    """Before the first step, and not with the steps: that would be how far the training has come."""
    if one.need <= 0 or one.first is None or one.since <= one.first:
        return False
    return first_step is None or one.rose is not None or one.since <= first_step
