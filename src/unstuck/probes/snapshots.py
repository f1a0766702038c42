"""Looks that the watcher took when a run stood still, kept in the run folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..evidence import Evidence
from ..evidence.process import Process
from ..report import Report
from ..safe_files import PRIVATE_FOLDER, NotPlainError, read_plain, write_private
from ..wording.left_out import left_out

FOLDER = "snapshots"
LARGEST = 64 << 20  # bytes of one: 60 ranks with eight workers each are a fifth of that


def save(report: Report, folder: Path) -> Path:
    """Written beside and moved into place, so that nobody reads half of it."""
    place = folder / FOLDER
    place.mkdir(PRIVATE_FOLDER, exist_ok=True)
    if place.is_symlink():
        raise NotPlainError(place, "a link, which is not followed")
    path = place / f"{len(list(place.glob('*.json'))):04d}.json"
    write_private(path, msgspec.json.encode(report))
    return path


def added(evidence: Evidence, folder: Path) -> Evidence:
    """The newest look, if the run has not moved since: then it still tells why.

    A run that was watched to its end, and moved whenever it was looked at, has nobody left who stands.
    """
    newest = max((folder / FOLDER).glob("*.json"), default=None)
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
    taken = msgspec.json.decode(read_plain(path, largest=LARGEST), type=Report).evidence
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
