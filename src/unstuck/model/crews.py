"""Workers of a loader by the pass they were started for: a crew is what one iterator started together."""

from __future__ import annotations

from .evidence import Evidence
from .phrases import who
from .recorded import Fetching, Loader, Process, State


def crews(evidence: Evidence, main: Process, loader: Loader) -> list[list[Process]]:
    """The first crew first. Persistent workers are one crew for all passes."""
    found: list[list[Process]] = [[]]
    for worker in evidence.workers_of(main, loader):
        if any(other.worker == worker.worker for other in found[-1]):
            found.append([])
        found[-1].append(worker)
    return [crew for crew in found if crew]


def fetched(evidence: Evidence, main: Process, loader: Loader) -> list[Fetching]:
    """What was fetched for a loader, by all its workers or by the main process itself."""
    if loader.num_workers == 0:
        return [one for one in main.fetching if one.loader == loader.number]
    return [one for worker in evidence.workers_of(main, loader) for one in worker.fetching]


def states(worker: Process) -> list[State]:
    """What a worker's copy of the dataset was at the beginning of its passes."""
    return [one for fetching in worker.fetching for one in fetching.states]


def part(count: int, of: int) -> str:
    """both workers; all 4 workers; 2 of the 4 workers."""
    if count < of:
        return f"{count} of the {of} workers"
    return "both workers" if of == 2 else f"all {of} workers"


def names(workers: list[Process]) -> str:
    """worker 0 (pid 12) and worker 1 (pid 13); worker 0 (pid 12) and 3 others."""
    first, rest = who(workers[0]), workers[1:]
    return f"{first} and {who(rest[0])}" if len(rest) == 1 else f"{first} and {len(rest)} others"
