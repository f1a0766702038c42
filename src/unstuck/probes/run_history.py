"""What is known of a run besides its recordings: the watchers' journals and looks, earlier attempts, how it ended."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..analysis.case import Case
from ..analysis.rank_deaths import first_dead
from ..evidence import Evidence, Exit, Host, Run, Sample
from ..evidence.distributed import Attempt
from ..evidence.journal import Begin, End, Glanced, Gone, Heard, Line, Look
from ..evidence.process import Failure, Process
from ..report import Report
from ..safe_files import PRIVATE_FOLDER, NotPlainError, open_plain, read_plain, write_private
from ..wording.left_out import encodable, left_out
from . import machine

LARGEST_JOURNAL = 8 << 20  # bytes of one journal: it is set aside long before
NODES, TOLD = 1024, 20  # journals that are read, and of those that cannot be, how many are named
MANY = 256  # processes that could not be recorded, by name
OLD = ".old.jsonl"  # what a journal that grew too long was renamed to
KEPT = 60  # samples per node that go into Evidence: so many newest, and as many spread over all the time before
SNAPSHOTS = "snapshots"  # looks that the watcher took when a run stood still, kept in the run folder
LARGEST_SNAPSHOT = 64 << 20  # bytes of one: 60 ranks with eight workers each are a fifth of that
REQUEUES = 1000  # an attempt's number holds how often Slurm has started the job again, times this
HANDLED = "exit"  # how an exception ended that a program caught to exit with a code
_decoder = msgspec.json.Decoder(Line)


class Journals(msgspec.Struct, frozen=True):
    """Every node's history. Empty when no watcher ever wrote."""

    hosts: list[Host]
    exits: list[Exit]
    unreadable: list[str]


def journals(folder: Path) -> Journals:
    """What the watchers wrote down: the machine over time, and the exits they saw."""
    hosts: list[Host] = []
    exits: list[Exit] = []
    unreadable: list[str] = []
    paths = sorted(path for path in folder.glob("watch-*.jsonl") if not path.name.endswith(OLD))
    if len(paths) > NODES:
        unreadable.append(f"{len(paths) - NODES:,} journals of watchers are left out: {NODES:,} were read")
    for path in paths[:NODES]:
        lines: list[Line] = []
        for part in (path.with_suffix(OLD), path):
            found, left = _lines(part)
            lines += found
            unreadable += left[: max(TOLD - len(unreadable), 0)]
        begins = [one for one in lines if isinstance(one, Begin)]
        if not begins:
            continue
        exits += [msgspec.structs.replace(one.exit, node=begins[0].node) for one in lines if isinstance(one, Gone)]
        hosts.append(_host(begins[0], lines, folder))
    return Journals(hosts, exits, unreadable)


def _host(begin: Begin, lines: list[Line], folder: Path) -> Host:
    samples = [one.sample for one in lines if isinstance(one, Look)]
    ended = any(isinstance(one, End) for one in lines)
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
        samples=_thinned(samples),
        watcher_ended=ended,
        processes_alive=alive,
        glances=[one.glance for one in lines if isinstance(one, Glanced)],
        signals=[one.told for one in lines if isinstance(one, Heard)],
        broke_off=held is False and not ended,
        unrecorded=sorted(encodable(one.name) for one in (folder / "recordings").glob("unrecorded-*"))[:MANY],
    )


def _thinned(samples: list[Sample]) -> list[Sample]:
    """Those that were looked at closely come first among the older ones. When an OOM kill was counted stays known."""
    older, newest = samples[:-KEPT], samples[-KEPT:]
    if len(older) <= KEPT:
        return samples
    close = [number for number, one in enumerate(older) if any(process.threads for process in one.processes)]
    some = close if len(close) >= KEPT else range(len(older))
    kept = {0, *(some[number * len(some) // KEPT] for number in range(1, KEPT))}
    killed = [number for number in range(1, len(older)) if older[number].oom_kills != older[number - 1].oom_kills]
    kept |= {near for number in killed[-KEPT:] for near in (number - 1, number)}
    return [*(older[number] for number in sorted(kept)), *newest]


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


def _lines(path: Path) -> tuple[list[Line], list[str]]:
    """What can be read, and a word on what cannot. The last line may be half: a watcher that is killed leaves it so."""
    try:
        written = read_plain(path, largest=LARGEST_JOURNAL).split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [left_out(path, error)]
    found, bad = [], 0
    for number, line in enumerate(written, 1):
        try:
            if line:
                found.append(_decoder.decode(line))
        except (ValueError, RecursionError):
            bad += number < len(written)
    watchers = sum(isinstance(one, Begin) for one in found)  # each that was killed has left half a line
    return found, [f"{encodable(str(path))} is damaged: {bad:,} of its lines are left out"] if bad > watchers else []


def save_snapshot(report: Report, folder: Path) -> Path:
    """Written beside and moved into place, so that nobody reads half of it."""
    place = folder / SNAPSHOTS
    place.mkdir(PRIVATE_FOLDER, exist_ok=True)
    if place.is_symlink():
        raise NotPlainError(place, "a link, which is not followed")
    path = place / f"{len(list(place.glob('*.json'))):04d}.json"
    write_private(path, msgspec.json.encode(report))
    return path


def with_snapshot(evidence: Evidence, folder: Path) -> Evidence:
    """The newest look, if the run has not moved since: then it still tells why.

    A run that was watched to its end, and moved whenever it was looked at, has nobody left who stands.
    """
    newest = max((folder / SNAPSHOTS).glob("*.json"), default=None)
    try:
        taken = _taken(newest) if newest is not None else None
    except (OSError, ValueError, RecursionError) as error:
        told = left_out(newest or folder, error)
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
    taken = msgspec.json.decode(read_plain(path, largest=LARGEST_SNAPSHOT), type=Report).evidence
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
