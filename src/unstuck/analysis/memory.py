"""Memory that grows, what a process held, and which OOM kill a death was."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ..evidence import Host, Memory, Sample
from ..evidence.loader import Fetching, FetchState
from ..evidence.process import Process
from ..wording.text import duration, size
from .case import SIGKILL, Case

# Kills by the kernel's OOM killer: which of those that its counters tell of can be the death of a certain process.
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


def oom_killed(case: Case, processes: list[Process]) -> Killed | None:
    """The first of these."""
    ended = [(seen, process) for process in processes for seen in case.exits_of(process)]
    for seen, process in sorted(ended, key=lambda one: one[0].at):
        host = case.host_of(process) if seen.status == SIGKILL else None
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


# Memory that climbs: how fast, where it would stop, and at which step it would meet the limit.
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


# What a process held, in words that say no more than was measured.
#
# The kernel's quick number (RssAnon) counts pages that a forked worker still shares with the process that forked it.
# What is private takes a walk through all pages, 40 ms for a GiB, and is only asked now and then, and of a few.
RECENT = 5.0  # seconds before the last look: what was private then is not far from what was in the end


def held(host: Host, process: Process) -> str | None:
    """682 MiB when last seen, of which 480 MiB were private to it at 31 s. None: nobody saw it."""
    looks = [one for one in looks_at(host, process.pid, "anonymous") if one[1]]  # a victim is emptied before it is gone
    if not looks:
        return None
    at, value = looks[-1]
    private = [(then, own) for then, own in looks_at(host, process.pid, "own") if then >= at - RECENT]
    if private:
        then, own = private[-1]
        return f"{size(value)} when last seen; {size(own)} were private to it at {duration(then)}"
    shared = ", with what it shared with the main process" if process.threads_at_fork is not None else ""
    return f"{size(value)} when last seen{shared}"


# Why workers ran out of memory, and settings that would have fitted, by the numbers of the run itself. Bytes.
SAMPLES = 8  # loaded before: fewer do not tell what is usual
TIMES = 4  # as much as memory moved by with all samples before: by that much one is far larger
NOTABLE = 0.1  # of the limit
SLIGHT = 16 << 20  # bytes by which the memory of any worker moves
LOOKS = 6  # of memory that grows: fewer may be one large batch in the making
BATCHES = 4  # made while it grew, for the same reason
ENOUGH = 8  # batches of each worker: before, its memory still grows
LEVEL = 1.05  # times what it took before: looks come at any moment of a batch
COMFORTABLE = 0.85  # of the limit: the numbers are those of looks twice a second


class Large(NamedTuple):
    """The sample that was being loaded, for which memory rose far more than for all before it."""

    sample: int | str
    file: str  # empty: not known
    grown: int  # at least
    usual: int  # most that memory moved by while the others were loaded
    samples: int  # how many these were


class Needs(NamedTuple):
    """What a run took, each part by itself: what does not depend on the workers, a worker, a batch that waits."""

    limit: int
    base: int
    worker: int
    batch: int
    ranks: int
    settled: bool  # the workers take no more than after half of their batches: else they would have gone on growing

    def of(self, workers: int, prefetch: int) -> int:
        return self.base + self.ranks * (workers * self.worker + (workers * prefetch + 1) * self.batch)

    def fits(self, workers: int, prefetch: int) -> bool:
        return self.of(workers, prefetch) <= COMFORTABLE * self.limit

    def settings(self, workers: int, prefetch: int) -> tuple[int, int] | None:
        """As many workers as fit, then as many batches ahead. None: none fit, or it cannot be known."""
        if not self.settled:
            return None
        some = ((fewer, ahead) for fewer in range(workers, 0, -1) for ahead in range(prefetch, 0, -1))
        return next((one for one in some if self.fits(*one)), None)


def limit_of(sample: Sample) -> tuple[int, int]:
    """The limit and what is in use: of the smallest cgroup, else of the machine."""
    if sample.limit is not None and sample.used is not None:
        return sample.limit, sample.used
    return sample.total, sample.total - sample.available


def in_hand(host: Host, worker: Process) -> Large | None:
    """The sample that its worker was killed with, if that is what took the memory."""
    now = worker.fetching[0] if worker.fetching else None
    if now is None or now.now != FetchState.LOADING or now.index is None or now.samples < SAMPLES:
        return None
    looks = [one for one in looks_at(host, worker.pid, "anonymous", since=worker.first_sample or 0.0) if one[1]]
    before = [value for at, value in looks if at < now.now_since]
    last = _last_look(host, worker.pid)
    if len(before) < 2 or last is None:
        return None
    usual = max(before) - min(before)
    during = max((value for at, value in looks if at >= now.now_since), default=before[-1]) - before[-1]
    grown = max(during, _unseen(worker.pid, last, usual))
    if grown < TIMES * max(usual, SLIGHT) or grown < NOTABLE * limit_of(last)[0]:
        return None
    return Large(now.index, _file(worker, now), grown, usual, now.samples)


def _unseen(pid: int, last: Sample, usual: int) -> int:
    """What it took after the last look, at least: all that was left then, but for what the others may have taken.

    The kernel ends the largest: where so much makes any process the largest, it was this one that took it.
    """
    limit, used = limit_of(last)
    grown = limit - used - usual * (len(last.processes) - 1)
    held = next(one for one in last.processes if one.pid == pid)
    return grown if grown > held.anonymous + held.files + held.shared else 0


def _file(worker: Process, now: Fetching) -> str:
    """What a reader was given for this very sample, where the recording has it."""
    read = [one.item for one in worker.slowest if one.item and one.at >= now.now_since - 0.01]
    return read[-1] if read else ""


def kept(host: Host, worker: Process) -> tuple[int, int] | None:
    """Memory that a worker allocated and did not give back from batch to batch: from, to.

    What it copies of its parent's is not among it: that was counted from the beginning.
    """
    now, last = worker.fetching[0] if worker.fetching else None, _last_look(host, worker.pid)
    if now is None or now.batches < BATCHES or last is None:
        return None
    until = now.now_since if now.now == FetchState.LOADING else None
    looks = looks_at(host, worker.pid, "anonymous", since=worker.first_sample or 0.0, until=until)
    looks = [one for one in looks if one[1]]
    rising, third = climb(looks, LOOKS), len(looks) // 3
    if rising is None or rising.grown < NOTABLE * limit_of(last)[0]:
        return None
    values = [value for _, value in looks]
    least = [min(values[:third]), min(values[third:-third]), min(values[-third:])]
    return (values[0], values[-1]) if least[0] < least[1] < least[2] else None


def needs_of(case: Case, host: Host, pid: int) -> Needs | None:
    """By the last look at the run before this worker died. None: too little was seen."""
    last = _last_look(host, pid)
    workers = [one for one in case.recording or () if one.role == "worker" and one.node == host.node]
    alive = {one.pid: one.anonymous for one in last.processes} if last is not None else {}
    crew = [one for one in workers if one.pid in alive]
    if last is None or not crew:
        return None
    born = {one.pid: born_with(host, one) for one in crew}
    limit, used = limit_of(last)
    first = next((one for one in host.samples if one.shm_free is not None), last)
    shm = max((first.shm_free or 0) - (last.shm_free or 0), 0)
    most = [max(value for _, value in looks_at(host, one.pid, "anonymous")) - born[one.pid] for one in crew]
    most += [value for one in crew for _, value in looks_at(host, one.pid, "own")]
    base = used - shm - sum(max(alive[one.pid] - born[one.pid], 0) for one in crew)
    batches = [batch.storage for one in crew for fetching in one.fetching for batch in fetching.handed]
    ranks = {owner.main.pid for one in crew if (owner := case.owner_of(one.node, one.pid)) is not None}
    batch = max(batches, default=0)  # its samples are all there before it is put together, whatever the looks saw
    settled = all(_settled(host, one, born[one.pid]) for one in crew)
    return Needs(limit, max(base, 0), max(*most, batch), batch, max(len(ranks), 1), settled)


def _settled(host: Host, worker: Process, born: int) -> bool:
    """After eight batches of 94 MB a worker was seen to take twice what it took after two: allocators leave holes."""
    made = sum(one.batches for one in worker.fetching)
    values = [value - born for _, value in looks_at(host, worker.pid, "anonymous") if value]
    half = len(values) // 2
    return made >= ENOUGH and half > 0 and max(values[half:]) <= LEVEL * max(*values[:half], SLIGHT)


def _last_look(host: Host, pid: int) -> Sample | None:
    seen = [one for one in host.samples if any(held.pid == pid and held.anonymous for held in one.processes)]
    return seen[-1] if seen else None
