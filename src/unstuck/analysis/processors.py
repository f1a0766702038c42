"""How the processes of a node got on with its CPU cores, and which cores they were pinned to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..evidence import Host, Memory, Sample
from ..evidence.loader import Loader
from ..evidence.process import Process
from ..wording.text import numbers
from .case import Case

# How the processes of a node got on with its processors: what each used, wanted and had to wait for.
YOUNG = 1.0  # seconds: of a worker that has just started, only its start was seen
NOTHING = Memory(0, threads=0, cpu=0.0, main_cpu=0.0, queued=0.0, preempted=0)


class Use(NamedTuple):
    """One process over some seconds. `alone` is what its main thread used by itself."""

    process: Process
    seconds: float
    cpu: float
    alone: float
    queued: float
    preempted: int
    threads: int

    @property
    def beside(self) -> float:
        """Processors that its other threads used, on average."""
        return max(self.cpu - self.alone, 0.0) / self.seconds


class Crowd(NamedTuple):
    """All workers of a node that were there at one moment, and its main processes since then."""

    host: Host
    workers: list[Use]
    mains: list[Use]

    @property
    def seconds(self) -> float:
        return max(one.seconds for one in self.workers)

    @property
    def queued(self) -> float:
        """Which part of the time in which workers wanted to run they had to wait for a processor."""
        queued = sum(one.queued for one in self.workers)
        wanted = queued + sum(one.alone for one in self.workers)
        return queued / wanted if wanted else 0.0

    @property
    def wanted(self) -> float:
        """Share of the time in which a worker ran, or would have run had there been a processor."""
        wanted = sum(one.queued + one.alone for one in self.workers)
        return wanted / sum(one.seconds for one in self.workers)

    @property
    def used(self) -> float:
        """Processors that the training itself kept busy."""
        return sum(one.cpu / one.seconds for one in (*self.workers, *self.mains))


def crowds(case: Case) -> Iterator[Crowd]:
    """For each node the moment with the most workers that had run for a while; the last of such moments."""
    for host in case.host or ():
        found = [_crowd(case, host, sample) for sample in host.samples]
        most = max((one for one in found if one.workers), key=_weight, default=None)
        if most is not None:
            yield most


def _weight(crowd: Crowd) -> tuple[int, float]:
    return len(crowd.workers), crowd.seconds


def uses(host: Host, sample: Sample, processes: list[Process], since: float) -> list[Use]:
    """How these got on until one moment; main processes since another. Those that have just started are left out."""
    by_pid = {one.pid: one for one in processes}
    seen = [(one, by_pid[one.pid]) for one in sample.processes if one.pid in by_pid and one.cpu is not None]
    found = [
        _loading(host, sample, *one, since) if one[1].role == "main" else _worker(host, sample, *one) for one in seen
    ]
    return [one for one in found if one is not None and one.seconds >= YOUNG]


def queueing(case: Case, main: Process, loads: list[Process]) -> float | None:
    """Seconds without a CPU core for each second of running, by the kernel, of those that load. None: not looked at.

    Where none of them lived long enough to be seen, they are taken to be held up as their main process is.
    """
    found = _queueing(case, loads)
    return found if found is not None else _queueing(case, [main])


def _queueing(case: Case, processes: list[Process]) -> float | None:
    ran = queued = 0.0
    for process in processes:
        hosts = [one for one in case.host or () if one.node == process.node]
        looks = [one for host in hosts for _, one in _looks(host, process.pid) if one.queued is not None]
        if process.threads_at_fork is not None:  # else it begins with its imports, which are no part of its work
            looks = [NOTHING, *looks]
        if len(looks) > 1:
            ran += (looks[-1].main_cpu or 0.0) - (looks[0].main_cpu or 0.0)
            queued += (looks[-1].queued or 0.0) - (looks[0].queued or 0.0)
    return queued / ran if ran > 0 else None


def _crowd(case: Case, host: Host, sample: Sample) -> Crowd:
    known = [(one, case.process(host.node, one.pid)) for one in sample.processes if one.cpu is not None]
    seen = [(one, process) for one, process in known if process is not None]
    workers = [_worker(host, sample, *one) for one in seen if one[1].role == "worker"]
    grown = [one for one in workers if one is not None and one.seconds >= YOUNG]
    since = min((one.process.opened for one in grown), default=sample.at)
    mains = [_main(host, sample, *one, since) for one in seen if one[1].role == "main"]
    return Crowd(host, grown, [one for one in mains if one is not None])


def _worker(host: Host, sample: Sample, seen: Memory, process: Process) -> Use | None:
    """A forked one from its beginning; another from the first look, because importing torch is not its work."""
    if process.threads_at_fork is not None:
        return _use(process, sample.at - process.opened, NOTHING, seen)
    first = next(_looks(host, process.pid))
    return _use(process, sample.at - first[0], first[1], seen)


def _main(host: Host, sample: Sample, seen: Memory, process: Process, since: float) -> Use | None:
    """Since the workers are there: what it did before took nothing from them."""
    before = [one for one in _looks(host, process.pid) if one[0] <= since]
    at, first = before[-1] if before else next(_looks(host, process.pid))
    return _use(process, sample.at - at, first, seen)


def _loading(host: Host, sample: Sample, seen: Memory, process: Process, since: float) -> Use | None:
    """From the first look after that moment, if there is one: what it imported before is no part of it."""
    later = [one for one in _looks(host, process.pid) if since <= one[0] <= sample.at - YOUNG]
    if not later:
        return _main(host, sample, seen, process, since)
    return _use(process, sample.at - later[0][0], later[0][1], seen)


def _looks(host: Host, pid: int) -> Iterator[tuple[float, Memory]]:
    for sample in host.samples:
        for one in sample.processes:
            if one.pid == pid and one.cpu is not None:
                yield sample.at, one


def _use(process: Process, seconds: float, first: Memory, last: Memory) -> Use | None:
    return (
        Use(
            process,
            seconds,
            cpu=(last.cpu or 0.0) - (first.cpu or 0.0),
            alone=(last.main_cpu or 0.0) - (first.main_cpu or 0.0),
            queued=(last.queued or 0.0) - (first.queued or 0.0),
            preempted=(last.preempted or 0) - (first.preempted or 0),
            threads=last.threads or 1,
        )
        if seconds > 0
        else None
    )


# Workers that may run on fewer processors than they need, though there are more: who, on which, since when.


class Pinned(NamedTuple):
    """Processes that load for one loader, what they used, and the processors that they share."""

    uses: list[Use]
    on: set[int]
    could: set[int]  # what cpusets leave them
    quota: float | None
    idle: float | None  # processors that had nothing to do meanwhile, on average
    busy: float  # processors that the whole training kept busy on this node

    @property
    def wanted(self) -> float:
        """Processors that their main threads would have kept busy, had there been enough."""
        return sum((one.alone + one.queued) / one.seconds for one in self.uses)

    @property
    def queued(self) -> float:
        """Which part of the time in which they wanted to run they had to wait."""
        queued = sum(one.queued for one in self.uses)
        wanted = queued + sum(one.alone for one in self.uses)
        return queued / wanted if wanted else 0.0

    @property
    def used(self) -> float:
        """Processors that they kept busy, with all their threads."""
        return sum(one.cpu / one.seconds for one in self.uses)

    @property
    def beside(self) -> float:
        """Which part of that was used by threads beside the main ones."""
        cpu = sum(one.cpu for one in self.uses)
        return sum(one.beside * one.seconds for one in self.uses) / cpu if cpu else 0.0

    @property
    def most(self) -> float:
        """Processors that they could have: quotas count as well."""
        return len(self.could) if self.quota is None else min(len(self.could), self.quota)


def pinned(case: Case, main: Process, loader: Loader) -> Pinned | None:
    """None: they may run wherever there is a processor, or that is not known."""
    host = case.host_of(main)
    loading = case.workers_of(main, loader) if loader.num_workers else [main]
    if host is None or not host.granted or not loading:
        return None
    pids = {one.pid for one in loading}
    looks = [one for one in host.samples if any(each.pid in pids and each.cpu is not None for each in one.processes)]
    if not looks:
        return None
    # Those that are there together count: workers are started anew with every pass.
    sample = max(looks, key=lambda one: (sum(each.pid in pids for each in one.processes), one.at))
    here = [one for one in loading if any(each.pid == one.pid for each in sample.processes)]
    found = uses(host, sample, here, since=_begun(loader))
    could = numbers(host.granted)
    sets = [_set(one, could) for one in sample.processes if one.pid in {use.process.pid for use in found}]
    on = set[int]().union(*sets)
    if not found or not on or len(on) >= len(could):
        return None
    idle = idle_processors(host, sample.at, min(one.process.opened for one in found))
    return Pinned(found, on, could, host.quota, idle, _busy(case, host, sample, _begun(loader)))


def _begun(loader: Loader) -> float:
    return loader.began or 0.0


def _busy(case: Case, host: Host, sample: Sample, since: float) -> float:
    here = [one for one in case.recording or () if one.node == host.node]
    return sum(one.cpu / one.seconds for one in uses(host, sample, here, since))


def _set(seen: Memory, could: set[int]) -> set[int]:
    return numbers(seen.pinned) or could


def idle_processors(host: Host, until: float, since: float) -> float | None:
    """Of all it could use, on average: where some are crowded, it is the others that had nothing to do."""
    known = [one for one in host.samples if one.idle is not None and one.processes and one.at <= until]
    first = next((one for one in known if one.at >= since), None)
    if first is None or first.idle is None or known[-1].idle is None or known[-1].at <= first.at:
        return None
    return (known[-1].idle - first.idle) / (known[-1].at - first.at)
