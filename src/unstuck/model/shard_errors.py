"""What was lost of shards and files that could not be read, where somebody caught the error and went on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .evidence import Evidence
from .phrases import many
from .questions import newest_loader
from .raised import raised
from .ranks import listed
from .recorded import Failure, Loader, Process
from .report import Symptom
from .shards import ShardError, Shards
from .uneven import uneven
from .web_shards import refused

READERS = "readers"  # library of errors that left a function which reads files, and were caught by the user's own code
MISSING = ("FileNotFoundError",)  # of a reader: to try whether there is a file is a way of asking


class Met(NamedTuple):
    """An error, and who met it with which list."""

    error: ShardError
    shards: Shards
    process: Process
    main: Process
    loader: Loader | None


def swallowed(evidence: Evidence) -> list[Met]:
    """The first first. What ended the process is none of them."""
    found = [one for process in evidence.recording or () for one in _met(evidence, process)]
    return sorted(found, key=lambda one: one.error.at)


def _met(evidence: Evidence, process: Process) -> Iterator[Met]:
    lists = [one for one in process.shards if one.errors]
    owner = evidence.owner_of(process.node, process.pid) if lists else None
    for shards in lists:
        for error in shards.errors:
            main, loader = (owner.main, owner.loader) if owner is not None else (process, _read_by(process, error.at))
            if error.handler or (shards.library == READERS and _caught(error, process)):
                yield Met(error, shards, process, main, loader)


def _read_by(process: Process, moment: float) -> Loader | None:
    """The loader that its main process went through then: a trainer has one to validate with, too."""
    around = [one for one in process.phases if one.at <= moment and (one.ended is None or moment <= one.ended)]
    numbers = [one.loader for one in around if one.loader is not None]
    own = [one for one in process.loaders if numbers and one.number == numbers[-1]]
    return own[0] if own else newest_loader(process)


def _caught(error: ShardError, process: Process) -> bool:
    """The process went on after it: nothing like it is among its last words."""
    raised = any(_is(one, error) for one in process.failures)
    return not raised and error.type not in MISSING and process.last_sign > error.at


def _is(failure: Failure, error: ShardError) -> bool:
    kinds = [failure.type, *(kind for kind, _ in failure.causes)]
    return failure.at >= error.at - 0.01 and error.type in kinds


def raised_over(failure: Failure, process: Process) -> ShardError | None:
    """The shard and sample that an exception of a stage was about, where no handler was there to catch it."""
    for error in (each for shards in process.shards for each in shards.errors if not each.handler and each.key):
        if (error.type, error.message[:100]) == (failure.type, failure.message[:100]):
            return error
    return None


def usual(evidence: Evidence, like: Shards) -> int:
    """The most samples that a shard of this list gave which was read to its end, in any process."""
    return max((one.usual for each in evidence.recording or () for one in each.shards if same(one, like)), default=0)


def same(one: Shards, other: Shards) -> bool:
    return (one.library, one.where, one.name, one.total) == (other.library, other.where, other.name, other.total)


def of_list(evidence: Evidence, like: Shards) -> list[Shards]:
    """What all processes went through of it."""
    return [one for each in evidence.recording or () for one in each.shards if same(one, like)]


def by_path(met: list[Met]) -> dict[str, list[Met]]:
    found: dict[str, list[Met]] = {}
    for one in met:
        found.setdefault(one.error.path, []).append(one)
    return found


class Trouble(NamedTuple):
    """What the errors led to, where the run did not come to its end."""

    symptom: Symptom
    text: str


def trouble(evidence: Evidence, met: list[Met]) -> Trouble | None | bool:
    """None: the run goes on, or went through. False: it crashed or hangs, and nothing says that this is the reason."""
    apart = uneven(evidence)
    if apart is not None:
        short = apart.one.rank
        if short not in {one.main.rank for one in met}:
            return False
        died = all(one.stand.death is not None for one in apart.behind)
        others = listed(one.rank for one in apart.behind)
        waits = "waits" if len(apart.behind) == 1 else "wait"
        text = (
            f"rank {short} therefore has fewer batches than {others}, which {'died waiting' if died else waits} for it"
        )
        return Trouble(Symptom.CRASHED if died else Symptom.STUCK, text)
    if not any(one.failure is not None and one.failure.how == "uncaught" for one in evidence.mains()):
        return None
    return _fell(evidence, met) or False


def _fell(evidence: Evidence, met: list[Met]) -> Trouble | None:
    """A sample that came half out of a broken shard, or a process that was left with none at all."""
    paths = {one.error.path for one in met}
    for one in raised(evidence):
        for error in (each for shards in one.process.shards for each in shards.errors if not each.handler):
            if error.path in paths and (error.type, error.message) == (one.failure.type, one.failure.message):
                sample = f"sample {error.key} of it" if error.key else "a sample of it"
                return Trouble(Symptom.CRASHED, f"{sample} came without all its parts, and {error.stage} raised")
        empty = refused(evidence, "check_empty")
        if empty is not None and any(one.process.pid == each.process.pid for each in met):
            own = empty.shards
            had = f"its {many(own.mine, 'shard')}" if own is not None and own.mine is not None else "its shards"
            return Trouble(Symptom.CRASHED, f"{one.by} was left with no sample at all of {had}")
    return None
