"""How long the workers of a loader took until they could load their first sample, and what that time went into."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence
from .recorded import Loader, Process

INIT = "worker_init_fn"
MAKING, IMPORTING, UNPACKING, PREPARING = "making the processes", "importing", "unpacking", INIT


class WorkerStart(NamedTuple):
    """Of the workers of a first pass."""

    seconds: float  # from the beginning of the pass until the last of them was ready, as far as it was waited for
    workers: list[Process]
    parts: dict[str, float]  # seconds: making them, of all together; the others, of the slowest worker
    going_on: bool  # one of them is not ready yet
    ready: float  # when the last of them was, waited for or not

    @property
    def most(self) -> str:
        return max(self.parts, key=lambda name: self.parts[name])


def worker_start(evidence: Evidence, main: Process, loader: Loader) -> WorkerStart | None:
    """None: there are none, or nothing is recorded of them."""
    began = loader.began
    known = [one for one in evidence.workers_of(main, loader) if one.started is not None]
    if began is None or not known or loader.num_workers < 1:
        return None
    workers = sorted(known, key=lambda one: one.started or 0.0)[: loader.num_workers]
    if (workers[0].started or 0.0) < began - 1.0 or workers[0].pid not in loader.pids[: loader.num_workers]:
        return None  # recordings of the first have made room for newer ones
    ready = max(_ready(one) for one in workers)
    held_up = loader.starts.mean + loader.first[0] if loader.first else ready - began
    parts = {
        MAKING: max((one.started or began) for one in workers) - began,
        IMPORTING: max(_imported(one) - (one.started or 0.0) for one in workers),
        UNPACKING: max(one.opened - _imported(one) for one in workers),
        PREPARING: max(_ready(one) - one.opened for one in workers),
    }
    going_on = any(_prepares(one) for one in workers)
    return WorkerStart(max(min(ready - began, held_up), 0.0), workers, parts, going_on, ready)


def _imported(worker: Process) -> float:
    """A forked worker imports nothing: it has what its parent had."""
    started = worker.started or worker.opened
    return worker.imported if worker.imported is not None else started


def _ready(worker: Process) -> float:
    going_on = [one.since for one in worker.stages_now if one.name == INIT]
    if going_on:
        return max(worker.last_sign, worker.opened)
    done = worker.stages.get(INIT)
    return worker.opened + (done.total if done is not None else 0.0)


def _prepares(worker: Process) -> bool:
    return any(one.name == INIT for one in worker.stages_now)
