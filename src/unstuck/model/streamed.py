"""What the processes of a loader have of a stream's shards, where a library shares them out."""

from __future__ import annotations

from typing import NamedTuple

from .crews import crews
from .evidence import Evidence
from .recorded import Loader, Process
from .shards import Shards
from .streams import ON_PROCESSOR
from .waiting import fetching, on_core

# Its workers each go through whole shards of their own. LitData and MosaicML Streaming cut shards up where they must;
# webdataset has rules of its own.
DATASETS = "datasets"


class Crew(NamedTuple):
    """The workers of a loader's newest pass, and what each has of one stream."""

    main: Process
    loader: Loader
    workers: list[Process]
    idle: list[Process]  # those of them that have not a single shard
    shards: Shards  # as one of those that have some knows them


def without_shards(evidence: Evidence, main: Process, loader: Loader) -> Crew | None:
    """None: every worker has a shard, or it is not known what it has."""
    known = crews(evidence, main, loader)
    newest = known[-1] if known else []
    idle = [one for one in newest if (own := _own(one)) and all(each.mine == 0 for each in own)]
    busy = [each for one in newest for each in _own(one) if each.mine]
    if not idle or not busy:
        return None
    return Crew(main, loader, newest, idle, busy[0])


def streams_of(evidence: Evidence, main: Process, loader: Loader, library: str) -> list[Shards]:
    """What those that load for a loader have of streams of one library, the newest last."""
    known = crews(evidence, main, loader)
    processes = known[-1] if known else [main] if loader.num_workers == 0 else []
    return [each for one in processes for each in one.shards if each.library == library]


def computes(evidence: Evidence, main: Process, loader: Loader) -> bool:
    """Those that load for it are on the processor most of the time."""
    return (on_core(fetching(evidence, main, loader)) or 0.0) >= ON_PROCESSOR


def _own(worker: Process) -> list[Shards]:
    """Those of which it is known that they are shared out among workers."""
    shared = [one for one in worker.shards if one.library == DATASETS and not one.resampled]
    return [one for one in shared if one.mine is not None and (one.workers or 0) > 1]
