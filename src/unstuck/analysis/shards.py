"""Shards of data: how they are split over processes, which could not be read, and which ranks read the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..evidence.data import DataFile
from ..evidence.finding import Symptom
from ..evidence.loader import Loader, ShardError, Shards
from ..evidence.process import Failure, Process
from ..wording.text import many
from .case import Case, once
from .data_files import SHARDS
from .failures import Raised, raised
from .passes import crews
from .ranks import listed
from .shares import uneven

# webdataset's shards: which process reads which, and what was raised because of them.
WEBDATASET = "webdataset"
SPLIT = "split_by_node"


class Refused(NamedTuple):
    """An exception of one of the library's own functions by which the training ended, and the list it was about."""

    raised: Raised
    shards: Shards | None
    others: list[Raised]  # of other processes


def refused(case: Case, function: str) -> Refused | None:
    """The first that this function of the library has raised."""
    found = [one for one in raised(case) if _raised_by(one, function)]
    return Refused(found[0], newest(found[0].process), found[1:]) if found else None


def _raised_by(one: Raised, function: str) -> bool:
    innermost = one.failure.frames[-1] if one.failure.frames else None
    return innermost is not None and innermost.function == function and f"/{WEBDATASET}/" in innermost.file


def newest(process: Process) -> Shards | None:
    own = [one for one in process.shards if one.library == WEBDATASET]
    return max(own, key=lambda one: (one.now_since, one.at), default=None)


def readers(case: Case, main: Process) -> list[Process]:
    """The processes of one rank that read shards: its workers, or itself where it has none."""
    workers = [worker for loader in main.loaders for worker in case.workers_of(main, loader)]
    return [process for process in [main, *workers] if newest(process) is not None]


def crew_size(main: Process, loader: Loader | None) -> tuple[int, int]:
    """Ranks, and workers of each: a loader without workers reads by itself."""
    return main.world or 1, max(loader.num_workers, 1) if loader is not None else 1


def without(total: int, ranks: int, workers: int) -> int:
    """How many of these processes get no shard, if shards are assigned one by one."""
    each, more = divmod(total, ranks)  # so many for each rank, and one more for the first of them
    return more * max(workers - each - 1, 0) + (ranks - more) * max(workers - each, 0)


# What was lost of shards and files that could not be read, where the error was caught and the run went on.
READERS = "readers"  # "library" of errors that left a function which reads files, and that the user's own code caught
MISSING = ("FileNotFoundError",)  # of a reader: to try whether there is a file is a way of asking


class Met(NamedTuple):
    """An error, the list it belongs to, and the process that met it."""

    error: ShardError
    shards: Shards
    process: Process
    main: Process
    loader: Loader | None


@once
def swallowed(case: Case) -> list[Met]:
    """In order of occurrence, without the one that ended the process."""
    found = [one for process in case.recording or () for one in _met(case, process)]
    return sorted(found, key=lambda one: one.error.at)


def _met(case: Case, process: Process) -> Iterator[Met]:
    lists = [one for one in process.shards if one.errors]
    owner = case.owner_of(process.node, process.pid) if lists else None
    for shards in lists:
        for error in shards.errors:
            main, loader = (owner.main, owner.loader) if owner is not None else (process, _read_by(process, error.at))
            if error.handler or (shards.library == READERS and _caught(error, process)):
                yield Met(error, shards, process, main, loader)


def _read_by(process: Process, moment: float) -> Loader | None:
    """The loader that its main process read from at that moment: a trainer also has one to validate with."""
    around = [one for one in process.phases if one.at <= moment and (one.ended is None or moment <= one.ended)]
    numbers = [one.loader for one in around if one.loader is not None]
    own = [one for one in process.loaders if numbers and one.number == numbers[-1]]
    return own[0] if own else process.newest_loader


def _caught(error: ShardError, process: Process) -> bool:
    """The process went on after it: none of its last exceptions is like it."""
    raised = any(_is(one, error) for one in process.failures)
    return not raised and error.type not in MISSING and process.last_sign > error.at


def _is(failure: Failure, error: ShardError) -> bool:
    kinds = [failure.type, *(kind for kind, _ in failure.causes)]
    return failure.at >= error.at - 0.01 and error.type in kinds


def raised_over(failure: Failure, process: Process) -> ShardError | None:
    """The shard and sample that an exception of a stage was about, where no handler caught it."""
    for error in (each for shards in process.shards for each in shards.errors if not each.handler and each.key):
        if (error.type, error.message[:100]) == (failure.type, failure.message[:100]):
            return error
    return None


def usual(case: Case, like: Shards) -> int:
    """The most samples that any process got from a whole shard of this list."""
    return max((one.usual for each in case.recording or () for one in each.shards if same(one, like)), default=0)


def same(one: Shards, other: Shards) -> bool:
    return (one.library, one.where, one.name, one.total) == (other.library, other.where, other.name, other.total)


def of_list(case: Case, like: Shards) -> list[Shards]:
    """What all processes read of it."""
    return [one for each in case.recording or () for one in each.shards if same(one, like)]


def by_path(met: list[Met]) -> dict[str, list[Met]]:
    found: dict[str, list[Met]] = {}
    for one in met:
        found.setdefault(one.error.path, []).append(one)
    return found


class Trouble(NamedTuple):
    """What the errors led to, where the run did not reach its end."""

    symptom: Symptom
    text: str


def trouble(case: Case, met: list[Met]) -> Trouble | None | bool:
    """None: the run goes on, or ended well. False: it crashed or hangs, and nothing says that this is the reason."""
    apart = uneven(case)
    if apart is not None:
        short = apart.one.rank
        if short not in {one.main.rank for one in met}:
            return False
        died = all(one.stand.death is not None for one in apart.behind)
        others = listed(one.rank for one in apart.behind)
        waits = "crashed" if died else "waits" if len(apart.behind) == 1 else "wait"
        text = f"rank {short} ran out of data, {others} {waits}"
        return Trouble(Symptom.CRASHED if died else Symptom.STUCK, text)
    if not any(one.failure is not None and one.failure.how == "uncaught" for one in case.mains):
        return None
    return _fell(case, met) or False


def _fell(case: Case, met: list[Met]) -> Trouble | None:
    """A sample that came incomplete out of a broken shard, or a process that got no sample at all."""
    paths = {one.error.path for one in met}
    for one in raised(case):
        for error in (each for shards in one.process.shards for each in shards.errors if not each.handler):
            if error.path in paths and (error.type, error.message) == (one.failure.type, one.failure.message):
                sample = f"sample {error.key}" if error.key else "a sample"
                return Trouble(Symptom.CRASHED, f"{sample} is incomplete and {error.stage} raised")
        empty = refused(case, "check_empty")
        if empty is not None and any(one.process.identity == each.process.identity for each in met):
            own = empty.shards
            had = many(own.mine, "shard") if own is not None and own.mine is not None else "its shards"
            worker = f"worker {one.process.worker}" if one.process.worker is not None else "the loader"
            return Trouble(Symptom.CRASHED, f"{worker} got no sample from {had}")
    return None


# Ranks that train together and all read the same samples of webdataset's, in the same order.
DDP = "DistributedDataParallel"
BATCHES = 2  # in the same order: one batch may be the same by chance
Content = tuple[tuple[int, ...], ...]


class Same(NamedTuple):
    """Loaders of several ranks whose first epochs began alike."""

    mains: list[Process]
    loader: Loader
    shards: Shards
    batches: int


@once
def same_on_ranks(case: Case) -> Same | None:
    """Only where gradients are averaged: ranks that do not train one model may well read the same."""
    alike: dict[tuple[int, Content], list[tuple[Process, Loader, Shards]]] = {}
    for main, loader in case.training_loaders:
        shards = _not_shared(case, main, loader)
        content = _content(case, main, loader)
        if shards is not None and content and any(one.kind == DDP for one in main.wrapped):
            alike.setdefault((loader.number, content), []).append((main, loader, shards))
    for (_, content), found in alike.items():
        if len({main.rank for main, _, _ in found}) > 1:
            _, loader, shards = found[0]
            return Same([main for main, _, _ in found], loader, shards, len(content[0]))
    return None


def _readers(case: Case, main: Process, loader: Loader) -> list[Process]:
    known = crews(case, main, loader)
    return known[0] if known else [main] if not loader.num_workers else []


def _not_shared(case: Case, main: Process, loader: Loader) -> Shards | None:
    """The list that a rank's processes read as if there were no other ranks."""
    lists = [found for one in _readers(case, main, loader) if (found := newest(one)) is not None]
    alone = [one for one in lists if one.ranks == 1 and not one.resampled]
    return alone[0] if alone and len(alone) == len(lists) and (main.world or 1) > 1 else None


def _content(case: Case, main: Process, loader: Loader) -> Content:
    """Digests of the first batches of each process; empty where they tell nothing."""
    begun = [
        tuple(each.digests[0])
        for one in _readers(case, main, loader)
        for each in one.fetching
        if each.digests and each.loader in (0, loader.number)
    ]
    telling = [one for one in begun if len(one) >= BATCHES and len(set(one)) == len(one)]
    return tuple(telling) if len(telling) == len(begun) else ()


# How data files are split over ranks and workers, and which of them get none.
ARCHIVES = ("tar",)
TABLES = tuple(one for one in SHARDS if one not in ARCHIVES)
HELD_OUT = re.compile(r"(?:^|[/_.-])(?:val|valid|validation|test|eval|dev)(?=[/_.\d-])")


class TooFew(NamedTuple):
    """Files to train on, and the processes that would read them."""

    files: list[DataFile]
    ranks: int
    workers: int

    @property
    def readers(self) -> int:
        return self.ranks * self.workers

    @property
    def idle(self) -> int:
        """Processes that get no file, if files are assigned one by one."""
        return without(len(self.files), self.ranks, self.workers)


class FewGroups(NamedTuple):
    """Parquet files of which none has a row group for every rank."""

    files: list[DataFile]
    most: int
    ranks: int


def too_few(case: Case, formats: tuple[str, ...]) -> TooFew | None:
    data = case.data
    if data is None or (data.asked.ranks is None and data.asked.workers is None):
        return None
    files = [one for one in _for_training(case) if one.format in formats]
    found = TooFew(files, max(data.asked.ranks or 1, 1), max(data.asked.workers or 1, 1))
    parts = sum(max(one.row_groups or 1, 1) for one in files)  # many loaders split row groups
    return found if files and parts < found.readers else None


@once
def few_groups(case: Case) -> FewGroups | None:
    ranks = case.data.asked.ranks if case.data is not None else None
    files = [one for one in _for_training(case) if one.row_groups]
    most = max((one.row_groups or 0 for one in files), default=0)
    return FewGroups(files, most, ranks) if ranks and 0 < most < ranks else None


def _for_training(case: Case) -> list[DataFile]:
    """Archives, else tables: those beside archives are about them. Not what is for validation, if there is more."""
    data = case.data
    if data is None or data.of_run or data.stopped:
        return []
    files = [one for one in data.files if one.format in ARCHIVES] or [one for one in data.files if one.format in TABLES]
    return [one for one in files if not HELD_OUT.search(one.path.lower())] or files
