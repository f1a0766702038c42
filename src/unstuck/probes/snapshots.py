"""Looks that the watcher took when a run stood still, kept in the run folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..model.evidence import Evidence
from ..model.report import Report

FOLDER = "snapshots"


def save(report: Report, folder: Path) -> Path:
    """Written beside and moved into place, so that nobody reads half of it."""
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    path = place / f"{len(list(place.glob('*.json'))):04d}.json"
    half = path.with_suffix(".half")
    half.write_bytes(msgspec.json.encode(report))
    half.replace(path)
    return path


def added(evidence: Evidence, folder: Path) -> Evidence:
    """The newest look, if the run has not moved since: then it still tells why."""
    newest = max((folder / FOLDER).glob("*.json"), default=None)
    if newest is None:
        return evidence
    try:
        taken = msgspec.json.decode(newest.read_bytes(), type=Report).evidence
    except (OSError, msgspec.DecodeError):
        return evidence
    if not isinstance(taken, Evidence) or taken.stall is None:
        return evidence
    if _progress(evidence, taken.stall.pid) != _progress(taken, taken.stall.pid):
        return evidence
    return msgspec.structs.replace(evidence, processes=taken.processes, stacks=taken.stacks, stall=taken.stall)


def _progress(evidence: Evidence, pid: int) -> list[int]:
    """What a main process has done so far. Its end, and what an exception leaves behind, are none of it."""
    process = evidence.process(pid)
    if process is None:
        return []
    return [process.optimizer_steps, *(loader.batches for loader in process.loaders)]
