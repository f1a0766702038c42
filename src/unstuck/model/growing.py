"""Memory that climbs: how fast, where it would stop, and at which step it would meet the limit."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from .evidence import Host, Memory
from .phrases import size
from .recorded import Process

RISES = 0.7  # of all intervals: a curve that goes up and down is no growth


class Climb(NamedTuple):
    """One kind of memory of one process, or of several together, from one moment to another."""

    since: float
    until: float
    first: int
    last: int

    @property
    def grown(self) -> int:
        return self.last - self.first

    @property
    def per_second(self) -> float:
        return self.grown / (self.until - self.since)


def looks_at(
    host: Host, pid: int, kind: str, since: float = 0.0, until: float | None = None
) -> list[tuple[float, int]]:
    """One kind of memory of a process (`anonymous`, `own`, `files`, `shared`) over time."""
    samples = [one for one in host.samples if one.at >= since and (until is None or one.at <= until)]
    seen = [(sample.at, one) for sample in samples for one in sample.processes if one.pid == pid]
    return [(at, value) for at, one in seen if (value := _value(one, kind)) is not None]


def _value(memory: Memory, kind: str) -> int | None:
    value: int | None = getattr(memory, kind)
    return value


def born_with(host: Host, worker: Process) -> int:
    """Anonymous memory that a forked process shared with its parent at first. The first look at it may come late."""
    if worker.threads_at_fork is None:
        return 0
    own = [value for _, value in looks_at(host, worker.pid, "anonymous") if value]
    parent = [value for _, value in looks_at(host, worker.parent, "anonymous", until=worker.opened) if value]
    return min([*own, *parent[-1:]], default=0)


def copied(host: Host, worker: Process) -> list[tuple[float, int]]:
    """What it has copied of that by writing, over time: what is private to it and was not allocated since."""
    born = born_with(host, worker)
    seen = [(sample.at, one) for sample in host.samples for one in sample.processes if one.pid == worker.pid]
    return [(at, max(one.own - max(one.anonymous - born, 0), 0)) for at, one in seen if one.own is not None]


def climb(looks: list[tuple[float, int]], least: int) -> Climb | None:
    """None: there were fewer than `least` looks, or it did not rise in most of them."""
    values = [value for _, value in looks]
    rises = sum(after > before for before, after in pairwise(values))
    if len(values) < max(least, 2) or rises < RISES * (len(values) - 1):
        return None
    return Climb(looks[0][0], looks[-1][0], values[0], values[-1])


def room(host: Host) -> tuple[int, str] | None:
    """Bytes that are left, and below which limit: the smallest memory cgroup's, or the machine's memory."""
    sample = next((one for one in reversed(host.samples) if one.processes), None)
    if sample is None:
        return None
    if sample.limit is not None and sample.used is not None:
        return min(max(sample.limit - sample.used, 0), sample.available), f"the limit of {size(sample.limit)}"
    return sample.available, f"the machine's memory of {size(sample.total)}"


def meets(left: int, per_step: float, step: int) -> int:
    """The step at which that much more is in use."""
    return step + int(left / per_step)
