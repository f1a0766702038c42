"""How long a loop waited for its batches, and who loaded them: what all rules about slow loading start from."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence
from .recorded import Fetching, Handed, Loader, Process

SHARE = 0.3  # of looping: a GPU busy less than 70 % of the time is the usual mark of a loader that does not keep up
BATCHES = 10  # fewer are start-up
SECONDS = 3.0  # of looping: the same; rules that say it of any loader ask for more
FEW, SLOWLY = 3, 2.0  # batches and seconds of such a loop, where batches come slowly
TRIED = 0.5  # seconds of a loop that only goes through a loader: nothing else warms up in it


class Waiting(NamedTuple):
    """Of one loader: seconds waited for batches, seconds of looping in all, and steps. First batches are left aside.

    So are batches that a resumed run only passes over.
    """

    waited: float
    looped: float
    steps: int
    taken: float = 0.0  # seconds that other programs took from both, where that was found out

    @property
    def lasted(self) -> float:
        """Seconds of looping, by the clock."""
        return self.looped + self.taken

    @property
    def share(self) -> float:
        return self.waited / self.looped if self.looped else 0.0

    @property
    def matters(self) -> bool:
        """The loop would gain by faster loading, and there is enough of it to say so."""
        return self.steps >= BATCHES and self.lasted >= SECONDS and self.share >= SHARE


def holds_up(evidence: Evidence, loader: Loader) -> bool:
    """The same question of a loader that is only tried: a loop that does nothing else waits all the time anyway."""
    waited = waiting(loader)
    if any(one.optimizer_steps for one in evidence.mains()):
        return waited.matters
    quick = waited.steps >= BATCHES and waited.looped >= TRIED
    slow = waited.steps >= FEW and waited.looped >= SLOWLY
    return (quick or slow) and waited.share >= SHARE


def waiting(loader: Loader) -> Waiting:
    waited = loader.waits.total - loader.skipped.total
    looped = waited + loader.bodies.total - loader.skipped_bodies
    return Waiting(waited, looped, loader.waits.count - loader.skipped.count)


def fetching(evidence: Evidence, main: Process, loader: Loader) -> list[Fetching]:
    """What loading cost each process that did it: the workers, or the main process itself."""
    if loader.num_workers == 0:
        return [one for one in main.fetching if one.loader == loader.number]
    return [one for worker in evidence.workers_of(main, loader) for one in worker.fetching]


def computed(load: Fetching) -> float:
    """Seconds of CPU time that its fetches took, by those of them whose CPU time was measured."""
    if load.cpu.count and load.cpu_of.total:
        return min(load.cpu.total / load.cpu_of.total, 1.0) * load.fetches.total
    return load.cpu.mean * load.fetches.count  # an older recording: how long just those took is not known


def on_core(fetching: list[Fetching]) -> float | None:
    """Which part of the time of fetching was CPU time. None: it was not measured."""
    known = [one for one in fetching if one.cpu.count]
    total = sum(one.fetches.total for one in known)
    return min(sum(computed(one) for one in known) / total, 1.0) if total else None


class Spread(NamedTuple):
    """What a time went into, in shares."""

    computing: float
    queued: float  # ready to run, without a CPU core
    blocked: float  # asleep, or waiting for a file, a lock, another process


def spread(computing: float, queueing: float | None) -> Spread:
    """`queueing`: seconds without a core for each second of computing; None: the kernel was not asked."""
    queued = min(computing * (queueing or 0.0), 1.0 - computing)
    return Spread(computing, queued, 1.0 - computing - queued)


def typical(fetching: list[Fetching]) -> Handed | None:
    """The batch that is in the middle by the number of its tensors, of all that were looked at."""
    batches = sorted((batch for one in fetching for batch in one.handed), key=lambda batch: batch.tensors)
    return batches[len(batches) // 2] if batches else None


def handing(fetching: list[Fetching]) -> float:
    """Which part of a worker's work goes into handing batches over, rather than into fetching them."""
    handed = sum(one.handovers.total for one in fetching)
    worked = handed + sum(one.fetches.total for one in fetching)
    return handed / worked if worked else 0.0


def lasted(process: Process) -> float:
    """Seconds from the beginning of the first pass over a loader to the last sign of life."""
    begun = [loader.states[0].at for loader in process.loaders if loader.states]
    return max((process.ended or process.last_sign) - min(begun, default=process.opened), 0.0)
