"""What is known of a run besides its recordings: the watchers' journals and looks, earlier attempts, how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..analysis.case import Case
from ..analysis.rank_deaths import first_dead
from ..evidence import Evidence, Exit, Host, Run
from ..evidence.distributed import Attempt
from ..evidence.journal import Begin
from ..evidence.process import Failure, Process
from ..report import Report
from ..safe_files import PRIVATE_FOLDER, open_plain, read_document, refuse_link, write_private
from ..wording.left_out import encodable, left_out
from . import machine
from .journals import Journal, Reading

MANY = 256  # processes that could not be recorded, by name
SNAPSHOTS = "snapshots"  # looks that the watcher took when a run stood still, kept in the run folder
LARGEST_SNAPSHOT = 64 << 20  # bytes of one: 60 ranks with eight workers each are a fifth of that
REQUEUES = 1000  # an attempt's number holds how often Slurm has started the job again, times this
HANDLED = "exit"  # how an exception ended that a program caught to exit with a code


class Journals(msgspec.Struct, frozen=True):
    """Every node's history. Empty when no watcher ever wrote."""

    hosts: list[Host]
    exits: list[Exit]
    unreadable: list[str]


def journals(folder: Path) -> Journals:
    """What the watchers wrote down: the machine over time, and the exits they saw."""
    hosts: list[Host] = []
    exits: list[Exit] = []
    reading = Reading(folder)
    for journal in reading:
        if journal.begin is not None:
            exits += journal.exits
            hosts.append(_host(journal.begin, journal, folder))
    return Journals(hosts, exits, reading.told())


def _host(begin: Begin, journal: Journal, folder: Path) -> Host:
    samples, ended = journal.samples, journal.ended
    held = _holds_lock(folder, begin) if os.uname().nodename == begin.node else None
    alive = held is True
    if samples and not ended and not alive:
        samples.append(machine.counters_after(samples[-1], samples[-1].at))
    return Host(
        node=begin.node,
        cpus=begin.cpus,
        granted=begin.granted,
        quota=begin.quota,
        descriptor_limit=begin.descriptor_limit,
        cgroup=begin.cgroup,
        samples=samples,
        watcher_ended=ended,
        processes_alive=alive,
        glances=journal.glances,
        signals=journal.signals,
        broke_off=held is False and not ended,
        unrecorded=_unrecorded(folder / "recordings"),
    )


def _unrecorded(folder: Path) -> list[str]:
    if folder.is_symlink():  # told where recordings are read
        return []
    return sorted(encodable(one.name) for one in folder.glob("unrecorded-*"))[:MANY]


def _holds_lock(folder: Path, begin: Begin) -> bool | None:
    """Whether that node's watcher still lives: it holds a lock for as long as it does. None: it cannot be known."""
    if "/" in begin.node:
        return None
    try:
        with os.fdopen(open_plain(folder / f"watch-{begin.node}.lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a shared one: another reader is no watcher
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def save_snapshot(report: Report, folder: Path) -> Path:
    """Written beside and moved into place, so that nobody reads half of it."""
    place = folder / SNAPSHOTS
    with contextlib.suppress(FileExistsError):  # what else may be there is told below
        place.mkdir(PRIVATE_FOLDER)
    refuse_link(place)
    path = place / f"{len(list(place.glob('*.json'))):04d}.json"
    write_private(path, msgspec.json.encode(report))
    return path


def with_snapshot(evidence: Evidence, folder: Path) -> Evidence:
    """The newest look, if the run has not moved since: then it still tells why.

    A run that was watched to its end, and moved whenever it was looked at, has nobody left who stands.
    """
    newest = None
    try:
        refuse_link(folder / SNAPSHOTS)
        newest = max((folder / SNAPSHOTS).glob("*.json"), default=None)
        taken = _taken(newest) if newest is not None else None
    except (OSError, ValueError, RecursionError) as error:
        told = left_out(newest or folder / SNAPSHOTS, error)
        evidence = msgspec.structs.replace(evidence, unreadable=[*evidence.unreadable, told])
        taken = None
    if taken is None or taken.stall is None or _over(evidence, taken) or _progress(evidence) != _progress(taken):
        watched = bool(evidence.host) and all(host.watcher_ended for host in evidence.host or ())
        return msgspec.structs.replace(evidence, processes=[], stacks=[]) if watched else evidence
    known = {name: getattr(taken, name) for name in ("processes", "stacks", "gpus", "stall", "looked_at")}
    return msgspec.structs.replace(evidence, **known)


def _over(evidence: Evidence, taken: Evidence) -> bool:
    """The run got through, and nothing tells its progress, or the look has seen nothing: it was about to end."""
    return evidence.run.status == 0 and (evidence.recording is None or not taken.stacks)


def _taken(path: Path) -> Evidence | None:
    taken = msgspec.json.decode(read_document(path, largest=LARGEST_SNAPSHOT), type=Report).evidence
    return taken if isinstance(taken, Evidence) else None


def _progress(evidence: Evidence) -> dict[tuple[str, int], list[object]]:
    """What each rank has done so far. Its end, and what an exception leaves behind, are none of it."""
    return {
        (one.node, one.pid): [one.optimizer_steps, *(loader.batches for loader in one.loaders), *_before_the_first(one)]
        for one in evidence.recording or ()
        if one.role in ("main", "launcher", "worker") and (one.role != "worker" or one.progress or one.first_sample)
    }


def _before_the_first(process: Process) -> list[object]:
    """How far it is on its way to its first batch, and what it tells of itself."""
    told = [(one.name, one.have) for one in process.progress]
    begun = [loader.began is not None for loader in process.loaders]
    return [*told, *begun, process.imported is not None, process.first_sample is not None]


def split_attempts(processes: Sequence[Process], exits: Sequence[Exit]) -> tuple[list[Process], list[Attempt]]:
    """The newest attempt of a run that its launcher has started anew, which is judged, and how each earlier one ended.

    Ranks belong to an attempt of their launcher's, and everything to one life of its job. Within a life, launchers and
    what ran before the ranks belong to all attempts.
    """
    mains = [process for process in processes if process.role == "main"]
    newest = max((process.attempt for process in mains), default=0)
    life = newest // REQUEUES

    def is_earlier(process: Process) -> bool:
        return process.attempt // REQUEUES < life or (process.rank is not None and process.attempt < newest)

    numbers = sorted({process.attempt for process in mains if is_earlier(process)})
    earlier = [
        _attempt(ordinal, [process for process in mains if process.attempt == number and is_earlier(process)], exits)
        for ordinal, number in enumerate(numbers)
    ]
    return [process for process in processes if not is_earlier(process)], earlier


def _attempt(number: int, processes: list[Process], exits: Sequence[Exit]) -> Attempt:
    ranks = [one for one in processes if one.role == "main"]
    first = first_dead(Case(Evidence(run=Run(id=""), recording=ranks, exits=list(exits))))
    failure = first.failure if first is not None else None
    return Attempt(
        number=number,
        began=min(one.opened for one in ranks),
        ended=first.at if first is not None else max(one.last_sign for one in ranks),
        ranks=len(ranks),
        rank=first.process.rank if first is not None else None,
        pid=first.process.pid if first is not None else None,
        status=first.status if first is not None else None,
        type=failure.type if failure is not None else "",
        message=failure.message if failure is not None else "",
        where=first.where if first is not None else None,
        steps=max(one.optimizer_steps for one in ranks),
        batches=max((loader.batches for one in ranks for loader in one.loaders), default=0),
    )


def settled_failures(evidence: Evidence) -> Evidence:
    """Exceptions that a program caught and then exited with a code: the code tells whether they ended it.

    `sys.exit(1)` in an `except` block may itself be caught: it counts where the process did end with a code.
    """
    if not any(failure.how == HANDLED for process in evidence.recording or () for failure in process.failures):
        return evidence
    case = Case(evidence)
    return msgspec.structs.replace(evidence, recording=[_settled(case, process) for process in case.recording or ()])


def _settled(case: Case, process: Process) -> Process:
    with_code = _exited_with_code(case, process)
    failures = [_ended(failure) if failure.how == HANDLED else failure for failure in process.failures]
    kept = [failure for failure in failures if with_code or not failure.caught]
    return msgspec.structs.replace(process, failures=kept)


def _ended(failure: Failure) -> Failure:
    return msgspec.structs.replace(failure, how="uncaught", caught=True)


def _exited_with_code(case: Case, process: Process) -> bool:
    statuses = [seen.status for seen in case.exits_of(process)]
    if case.is_command(process.node, process.pid) and case.run.status is not None:
        statuses.append(case.run.status)
    return any(status > 0 for status in statuses)
