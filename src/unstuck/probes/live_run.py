"""Evidence of a run that is going on: with its recording or without."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..analysis.case import Case
from ..analysis.endless_loops import FIRST, in_question, longer
from ..analysis.standstill import descendants
from ..evidence import Evidence, Host, Run
from ..inside.redaction import redacted_arguments
from . import cgroups, kernel, machine, owners, rounds, sampler
from .look import Look, Patience, glance, look
from .sampler import Tell

PATIENCE = 5.0  # seconds for a disk to say how much room it has
SPARE = 1.0  # seconds: a sampler starts a little late and ends a little early


def unrecorded(pids: Sequence[int]) -> Evidence:
    """What can be said of a run that nobody prepared, before it is looked at."""
    top = pids[0]
    seen = kernel.stat(top)
    age = seen.age() if seen is not None else 0.0
    node = os.uname().nodename
    command = redacted_arguments(kernel.command(top))
    run = Run(id=f"pid {top}", command=command, started=time.time() - age, host=node, pid=top)
    sample = machine.sample(top, pids, Path("/proc", str(top), "cwd"), age, disk=_asked_by_owner(top))
    here = Host(
        node=node,
        cpus=cgroups.cpus(top),
        descriptor_limit=kernel.descriptor_limit(top),
        cgroup=cgroups.leaf(top),
        samples=[sample],
        processes_alive=True,
    )
    return Evidence(run=run, host=[here])


def _asked_by_owner(pid: int) -> machine.Disk:
    """Its mounts are its user's: one of them may never answer."""
    owner = owners.owner_of(pid)

    def asked(path: str) -> tuple[int, int] | None:
        try:
            found = owners.as_owner(owner, lambda: list(machine.room_of(path) or ()), list[int], PATIENCE)
        except owners.Refused:
            return None
        return (found[0], found[1]) if found else None

    return asked


def now(evidence: Evidence) -> float:
    """Seconds since the run began, as its live recordings count them: the wall clock may have been set since."""
    here = os.uname().nodename
    live = (one.wall_offset for one in evidence.recording or () if one.alive and one.node == here)
    offset = next((one for one in live if one is not None), None)
    return (time.time() if offset is None else time.monotonic() + offset) - evidence.run.started


def look_at(evidence: Evidence, pids: Sequence[int], tell: Tell, patience: Patience | None = None) -> Look:
    """A look at its processes."""
    folder = Path(evidence.run.folder) if evidence.run.folder else None
    return look(pids, evidence.recording or [], tell, patience, folder)


def added(evidence: Evidence, seen: Look) -> Evidence:
    at = round(now(evidence), 3)
    processes, stacks = seen.processes, seen.stacks or None
    return msgspec.structs.replace(evidence, processes=processes, stacks=stacks, gpus=machine.gpus(), looked_at=at)


def with_rounds(evidence: Evidence, tell: Tell) -> Evidence:
    """Those whose main thread computes without progress are watched for a few seconds, and longer where needed."""
    case = Case(evidence)
    asked = in_question(case)
    if not asked:
        return evidence
    tell(f"watching for {FIRST:.0f} s what computes without progress")
    found = rounds.watch([one.pid for one in asked], FIRST)
    more = {one.pid: longer(case, one, found[one.pid]) for one in asked if one.pid in found}
    wanted = [pid for pid, seconds in more.items() if seconds]
    if wanted:
        seconds = max(more.values())
        tell(f"still no progress; watching for another {seconds:.0f} s to tell an endless loop from a long computation")
        found |= rounds.watch(wanted, seconds + SPARE)
    seen = [msgspec.structs.replace(one, rounds=found.get(one.pid)) for one in evidence.processes or ()]
    return msgspec.structs.replace(evidence, processes=seen)


def glanced_at(pids: Sequence[int]) -> Evidence:
    """A quick look without native stacks, for a list of many runs."""
    evidence = unrecorded(pids)
    return added(evidence, glance(pids))


def sampled(evidence: Evidence, seconds: float, tell: Tell) -> Evidence:
    """The same with samples of where its time goes."""
    wanted = {one.pid for one in evidence.processes or () if one.role in ("main", "child", "worker") and not one.ended}
    case = Case(evidence)
    below = {one.pid for pid in wanted for one in descendants(case, pid)}  # the sampler follows these itself
    return msgspec.structs.replace(evidence, samples=sampler.sample(sorted(wanted - below), seconds, tell))
