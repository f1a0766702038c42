"""The workers of an iterable dataset in one pass: how much each brought, when its stream ended, how long it worked."""

from __future__ import annotations

from typing import NamedTuple

from .crews import crews
from .evidence import Evidence
from .phrases import who
from .questions import host_of
from .recorded import Loader, Process
from .sampling import phases_of
from .waiting import SHARE, on_core, waiting

IDLE = "waiting for an index"
LASTED = 1.0  # seconds of a pass: in a shorter one the start of the workers is all there is
LOOPED = 3.0  # seconds of all passes: less costs nobody anything
FEWER = 0.7  # of the samples of the worker that has most: a quarter more or less is what real data has
EARLY = 0.25  # of the pass, before whose end a worker has no more
SAVED = 0.2  # of the pass, if all ended together
LEAST = 0.5  # seconds, in all
ON_PROCESSOR = 0.5  # of the time in which a batch is made: more workers than processors would not make it faster


class Stream(NamedTuple):
    """One worker in one pass. Over many passes of persistent workers it is what one of them has on average."""

    worker: Process
    samples: int
    worked: float  # seconds
    ended: float  # when it had no more


class Crew(NamedTuple):
    """All workers of one pass that came to its end, by their number."""

    main: Process
    loader: Loader
    number: int  # of the pass
    began: float
    ended: float
    streams: list[Stream]
    side_by_side: int  # how many of them the processors can run at once

    @property
    def lasted(self) -> float:
        return max(self.ended - self.began, 0.0)

    @property
    def last(self) -> Stream:
        return max(self.streams, key=lambda one: one.ended)

    @property
    def evenly(self) -> float:
        """Seconds that the same work would take if all of them ended together; never less than the loop's own."""
        worked = sum(one.worked for one in self.streams)
        bodies = self.loader.bodies.mean * self.loader.batches / max(self.loader.passes, 1)
        return max(worked / self.side_by_side, bodies, 0.0)

    @property
    def early(self) -> list[Stream]:
        """Workers that had far less than the one that went on to the end, the first to be through first."""
        last = self.last
        found = [
            one
            for one in self.streams
            if one.samples <= FEWER * last.samples and last.ended - one.ended >= EARLY * self.lasted
        ]
        return sorted(found, key=lambda one: one.ended)

    @property
    def costs(self) -> bool:
        """The loop waits for data, and would have been through far earlier had all workers ended together."""
        saved = self.lasted - self.evenly
        known = waiting(self.loader)
        slow = known.share >= SHARE and known.looped >= LOOPED and self.lasted >= LASTED
        return slow and saved >= max(SAVED * self.lasted, LEAST) and bool(self.early)

    @property
    def totals(self) -> str:
        """Worker 0 40 samples, worker 1 260."""
        known = [f"{who(one.worker).partition(' (')[0]}: {one.samples:,}" for one in self.streams]
        return ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")


def newest_crew(evidence: Evidence, main: Process, loader: Loader) -> Crew | None:
    """Of the newest pass that came to its end, if all its workers are known."""
    if not loader.iterable or loader.num_workers < 2 or not loader.ended:
        return None
    number = loader.ended[-1].number
    phase = next((one for one in phases_of(main, loader) if one.number_of_pass == number), None)
    known = crews(evidence, main, loader)
    back = 0 if loader.persistent_workers else loader.passes - number
    if phase is None or phase.left or back >= len(known) or (loader.persistent_workers and number != loader.passes):
        return None
    passes = loader.passes if loader.persistent_workers else 1
    streams = [one for worker in known[-1 - back] if (one := _stream(worker, passes)) is not None]
    if len(streams) < loader.num_workers:
        return None
    ended = phase.ended if phase.ended is not None else loader.ended[-1].at
    return Crew(main, loader, number, phase.at, ended, streams, _side_by_side(evidence, main, streams))


def _stream(worker: Process, passes: int) -> Stream | None:
    known = next((one for one in worker.fetching if one.now == IDLE), None)
    if known is None:
        return None
    worked = (known.fetches.total + known.handovers.total) / passes
    return Stream(worker, known.samples // passes, worked, known.now_since)


def _side_by_side(evidence: Evidence, main: Process, streams: list[Stream]) -> int:
    computing = (on_core([one for stream in streams for one in stream.worker.fetching]) or 0.0) >= ON_PROCESSOR
    host = host_of(evidence, main)
    return min(len(streams), host.cpus or len(streams)) if computing and host is not None else len(streams)
