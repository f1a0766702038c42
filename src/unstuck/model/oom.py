"""Kills by the kernel's OOM killer: which of those that its counters tell of can be the death of a certain process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from .evidence import Evidence, Host, Sample
from .phrases import duration
from .questions import SIGKILL, host_of
from .recorded import Process

MACHINE = "machine"  # all kills on the node, where the others are by cgroup
WITHIN = 2.0  # seconds between kill and death: a victim may be in a wait that no signal interrupts
LATE = 10.0  # seconds by which an exit may be noticed late: torch looks after its workers every 5
NEAR = 0.9  # of the limit, or of the machine's memory, in use: a look may come a second before the limit is reached
SHOWN = 2  # kills elsewhere that are told


class Count(NamedTuple):
    """A counter of OOM kills that moved between two looks."""

    group: str  # a cgroup, or MACHINE
    before: int
    after: int
    since: float
    at: float  # infinite: it was read again some time after the watcher was gone
    own: bool  # of the cgroup that the training itself is in, not of one above

    def told(self) -> str:
        later = "afterwards" if math.isinf(self.at) else f"at {duration(self.at)}"
        return f"OOM kills in {self.group}: {self.before} at {duration(self.since)}, {self.after} {later}"


class Kills(NamedTuple):
    """What the counters say of one death."""

    of_it: list[Count]  # that moved with it
    others: list[Count]  # of other processes, or at other times
    known: bool  # whether it was one: its own cgroup's counter was read afterwards, or none moved at that time

    def elsewhere(self) -> Iterator[str]:
        """The kills that were not this death, once each: cgroups above count them again."""
        told: set[float] = set()
        for one in self.others:
            if one.at not in told and len(told) < SHOWN:
                told.add(one.at)
                at = "after the run" if math.isinf(one.at) else f"at {duration(one.at)}"
                where = f"of another process in {one.group}" if one.own else "elsewhere on this node"
                yield f"an OOM kill {where} was counted {at}"


def kills_at(host: Host, pid: int, ended: float) -> Kills:
    """Of a process whose end was noticed at that time.

    The counter of its own cgroup moves with its death if, and only if, the kernel killed something in there. One above
    it, or the machine's, also moves for others: it counts only while memory was nearly full.
    """
    first, last = _death(host, pid, ended)
    counts = _moved(host)
    full = _nearly_full(host, first, last)
    machine = full and not any(name != MACHINE for sample in host.samples for name in sample.oom_kills)
    then = [one for one in counts if one.at >= first - WITHIN and one.since <= last + WITHIN]
    of_it = [one for one in then if one.own or (machine if one.group == MACHINE else full)]
    read = {name for sample, at in _looks(host) if _after(sample, at, last) for name in sample.oom_kills}
    known = bool(read & _own_groups(host)) or (bool(read) and not then)
    others = [] if of_it else sorted(counts, key=lambda one: (one.at, -len(one.group)))
    return Kills(sorted(of_it, key=lambda one: -len(one.group)), others, known)


class Killed(NamedTuple):
    """A process that the OOM killer ended."""

    process: Process
    at: float
    counts: list[Count]


def oom_killed(evidence: Evidence, processes: list[Process]) -> Killed | None:
    """The first of these."""
    ended = [(seen, process) for process in processes for seen in evidence.exits_of(process)]
    for seen, process in sorted(ended, key=lambda one: one[0].at):
        host = host_of(evidence, process) if seen.status == SIGKILL else None
        counts = kills_at(host, seen.pid, seen.at).of_it if host is not None else []
        if counts:
            return Killed(process, seen.at, counts)
    return None


def _after(sample: Sample, at: float, death: float) -> bool:
    """A look reads the counters first and the processes then: the one that misses a process may be too early."""
    return at > death or (at >= death and not sample.processes)


def told_of_kill(host: Host | None, pid: int, ended: float) -> list[str]:
    """Of a process that SIGKILL ended: what the counters say against, and of whom else. Empty if it was an OOM kill."""
    kills = kills_at(host, pid, ended) if host is not None else Kills([], [], known=False)
    if kills.of_it:
        return []
    own = "no OOM kill was counted in its memory cgroup at that moment"
    return [own if kills.known else "no count of OOM kills was read after that", *kills.elsewhere()]


def kills_at_the_end(host: Host) -> Kills:
    """Of a run that broke off, its watcher too: it was alive at the last look that saw a process."""
    looks = [sample for sample in host.samples if sample.processes] or host.samples
    return kills_at(host, 0, looks[-1].at) if looks else Kills([], [], known=False)


def _looks(host: Host) -> list[tuple[Sample, float]]:
    """Samples with their times. Where the watcher was killed, the counters are read once more by whoever judges."""
    times = [sample.at for sample in host.samples]
    if times and not host.watcher_ended and not host.processes_alive and not host.samples[-1].processes:
        times[-1] = math.inf
    return list(zip(host.samples, times, strict=True))


def _moved(host: Host) -> list[Count]:
    own = _own_groups(host)
    found = []
    for group in {name: None for sample in host.samples for name in sample.oom_kills}:
        looks = [(sample.oom_kills[group], at) for sample, at in _looks(host) if group in sample.oom_kills]
        found += [
            Count(group, before, after, since, at, group in own)
            for (before, since), (after, at) in pairwise(looks)
            if after > before
        ]
    return found


def _own_groups(host: Host) -> set[str]:
    """Cgroups that the training itself was in, and none of those above. It may have been moved into another one."""
    names = {name for sample in host.samples for name in sample.oom_kills if name != MACHINE}
    below = {*names, host.cgroup or ""}
    return {one for one in names if not any(other.startswith(f"{one.rstrip('/')}/") for other in below)}


def _death(host: Host, pid: int, ended: float) -> tuple[float, float]:
    """Between the last look that saw its memory and the next one, or the moment when its end was noticed."""
    alive = [number for number, one in enumerate(host.samples) if any(held.pid == pid for held in one.processes)]
    if not alive:
        return ended, ended
    seen = host.samples[alive[-1]].at
    after = host.samples[alive[-1] + 1].at if alive[-1] + 1 < len(host.samples) else ended
    last = max(min(after, ended), seen)
    return max(seen, last - LATE), last


def _nearly_full(host: Host, first: float, last: float) -> bool:
    """At the looks around that time, or at the last one before it."""
    looks = [one for one in host.samples if one.processes and one.at <= last + WITHIN] or host.samples[:1]
    around = [one for one in looks if one.at >= first - WITHIN] or looks[-1:]
    return any(_is_full(one) for one in around)


def _is_full(sample: Sample) -> bool:
    if sample.limit and sample.used is not None and sample.used >= NEAR * sample.limit:
        return True
    return bool(sample.total) and sample.available <= (1 - NEAR) * sample.total
