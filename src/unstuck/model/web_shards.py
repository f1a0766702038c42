"""Questions about webdataset's shards: whose they are, and what was raised over them."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence
from .raised import Raised, raised
from .recorded import Loader, Process
from .shards import Shards

WEBDATASET = "webdataset"
SPLIT = "split_by_node"


class Refused(NamedTuple):
    """An exception of one of the library's own functions by which the training ended, and the list it was about."""

    raised: Raised
    shards: Shards | None
    others: list[Raised]  # of other processes


def refused(evidence: Evidence, function: str) -> Refused | None:
    """The first that this function of the library has raised."""
    found = [one for one in raised(evidence) if _raised_by(one, function)]
    return Refused(found[0], newest(found[0].process), found[1:]) if found else None


def _raised_by(one: Raised, function: str) -> bool:
    innermost = one.failure.frames[-1] if one.failure.frames else None
    return innermost is not None and innermost.function == function and f"/{WEBDATASET}/" in innermost.file


def newest(process: Process) -> Shards | None:
    own = [one for one in process.shards if one.library == WEBDATASET]
    return max(own, key=lambda one: (one.now_since, one.at), default=None)


def readers(evidence: Evidence, main: Process) -> list[Process]:
    """The processes of one rank that go through shards: its workers, and itself where it has none."""
    workers = [worker for loader in main.loaders for worker in evidence.workers_of(main, loader)]
    return [process for process in [main, *workers] if newest(process) is not None]


def crew_size(main: Process, loader: Loader | None) -> tuple[int, int]:
    """Ranks, and workers of each: a loader without workers reads by itself."""
    return main.world or 1, max(loader.num_workers, 1) if loader is not None else 1


def without(total: int, ranks: int, workers: int) -> int:
    """How many of these processes are left without a shard, if they are dealt out one by one."""
    each, more = divmod(total, ranks)  # so many for each rank, and one more for the first of them
    return more * max(workers - each - 1, 0) + (ranks - more) * max(workers - each, 0)
