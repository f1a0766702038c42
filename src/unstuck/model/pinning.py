"""Workers that may run on fewer processors than they need, though there are more: who, on which, since when."""

from __future__ import annotations

from typing import NamedTuple

from .crowding import Use, uses
from .evidence import Evidence, Host, Memory, Sample
from .processors import numbers
from .questions import host_of
from .recorded import Loader, Process


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


def pinned(evidence: Evidence, main: Process, loader: Loader) -> Pinned | None:
    """None: they may run wherever there is a processor, or that is not known."""
    host = host_of(evidence, main)
    loading = evidence.workers_of(main, loader) if loader.num_workers else [main]
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
    return Pinned(found, on, could, host.quota, idle, _busy(evidence, host, sample, _begun(loader)))


def _begun(loader: Loader) -> float:
    return loader.began or 0.0


def _busy(evidence: Evidence, host: Host, sample: Sample, since: float) -> float:
    here = [one for one in evidence.recording or () if one.node == host.node]
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
