"""Loops over a DataLoader, as samples show them: how long each waits for data, and what loading that data goes into."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from .doing import FETCHING, OWN, WAITING
from .evidence import Evidence
from .look import Frame, Seen
from .places import Place
from .spending import COMPUTING, HANDING, RESTING, Time, asked_at, of_main, of_workers, spenders, worked, worker_pids
from .waiting import Spread, spread

INDICES = "possibly_batched_index"


class Loop(NamedTuple):
    """One main process that asks a loader for batches."""

    main: Seen
    at: Place | None
    times: list[Time]
    workers: list[Seen]  # those that were there before the samples were taken
    started: int  # workers that came while they were
    loading: list[Time]  # in all workers together, or in itself
    loaded: float  # seconds that the workers were looked at, or that it loaded itself
    gets_on: bool  # batches come, and something is done with them

    @property
    def alone(self) -> bool:
        """It has no workers and loads every batch itself."""
        return self.seconds(FETCHING) > self.seconds(WAITING)

    @property
    def looked(self) -> float:
        return self.seconds()

    @property
    def waiting(self) -> float:
        return self.seconds(WAITING, FETCHING) / self.looked

    @property
    def idle(self) -> float:
        return self._of_loading(RESTING)

    @property
    def handing(self) -> float:
        return self._of_loading(HANDING)

    @property
    def line(self) -> Time | None:
        """Where most of a sample's time goes."""
        return next((one for one in self.loading if one.what == FETCHING and one.where is not None), None)

    @property
    def on_processor(self) -> float | None:
        """Of the time in which data is loaded, by the kernel's count between two looks."""
        loads = [self.main] if self.alone else self.workers
        share = self.waiting if self.alone else 1 - self.idle
        looked = sum(one.looked for one in loads) * share
        return min(sum(one.cpu for one in loads) / looked, 1.0) if looked else None

    @property
    def spread(self) -> Spread | None:
        """What loading goes into, by the kernel's count between two looks."""
        share, loads = self.on_processor, [self.main] if self.alone else self.workers
        ran, queued = (sum(getattr(one.main_task, name) for one in loads) for name in ("cpu", "queued"))
        return None if share is None else spread(share, queued / ran if ran else None)

    @property
    def needed(self) -> int:
        """Workers that would load as fast as the rest of the loop goes, were there processors for all of them."""
        rest = max(1 - self.waiting, 0.01)
        return ceil((1 if self.alone else len(self.workers)) * (1 - self.idle) / rest)

    def seconds(self, *kinds: str) -> float:
        return sum(one.seconds for one in self.times if not kinds or one.what in kinds)

    def _of_loading(self, kind: str) -> float:
        return sum(one.seconds for one in self.loading if one.what == kind) / self.loaded if self.loaded else 0.0


def loops(evidence: Evidence) -> Iterator[Loop]:
    for main in spenders(evidence):
        pids, times = worker_pids(evidence, main), of_main(evidence, main)
        workers = [one for one in evidence.processes or () if one.pid in pids]
        loading, loaded = of_workers(evidence, main), worked(evidence, main)
        if not pids:
            loading = [one for one in times if one.what == FETCHING]
            loaded = sum(one.seconds for one in loading)
        if any(one.what in (WAITING, FETCHING) for one in times):
            at, started = asked_at(evidence, main), len(pids) - len(workers)
            yield Loop(main, at, times, workers, started, loading, loaded, _gets_on(evidence, times, {main.pid, *pids}))


def _gets_on(evidence: Evidence, times: list[Time], pids: set[int]) -> bool:
    """It was seen to compute; or in code of its own, and the second look found another batch than the first.

    A resumed run that only passes over batches does neither.
    """
    kinds = {one.what for one in times}
    return COMPUTING in kinds or (OWN in kinds and _other_batch(evidence, pids))


def _other_batch(evidence: Evidence, pids: set[int]) -> bool:
    """Between two looks, one of them went from one batch to another."""
    pairs = [(_batch(one.frames), _batch(one.before)) for one in evidence.stacks or () if one.pid in pids]
    return any(now and then and now != then for now, then in pairs)


def _batch(frames: list[Frame]) -> str | None:
    """The indices that torch's fetcher was given."""
    return next((one.locals[INDICES] for one in frames if INDICES in one.locals), None)
