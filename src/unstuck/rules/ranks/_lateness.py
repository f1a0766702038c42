"""Which rank the others wait for, step by step: by when each reached a collective, or how long each waited for data."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, median
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_waiting, queued
from ...analysis.loading import waiting
from ...evidence.epochs import CHECKPOINT, VALIDATION
from ...evidence.loader import Loader
from ...evidence.process import Process

STEPS = 10  # fewer are start-up
LEAST = 0.005  # seconds: below that it is the scheduler
MOST = 0.85  # of all that is waited for the last one, for one and the same rank: else it changes hands
QUARTERS = 4  # of the time, in each of which most of it is for that rank: a disturbance that ends is no straggler
OFTEN = 8  # times that it is late: a rank whose workers load in step is late once for all of them
MIRRORED = 0.5  # of what one rank waits for data, by which the others' bodies are longer: they wait in there
SYNCHRONOUS = 0.95  # of the collectives, that no rank reached before all had reached the one before: each is waited for
TICK = 0.001  # seconds within which that cannot be told
UNUSUAL = 5  # times the usual delay: a checkpoint, a collection of garbage
ONE_WAY = ("send", "recv", "broadcast_object_list")  # no rank waits for all others in these
JOIN = "Join"  # a rank that has no more batches only takes part in the others' collectives, so it is never late
HALF = 0.5  # of the delay that has to be the rank's own
DISPATCHER = "Dispatcher"  # accelerate's: one rank loads for all, so all the others wait for it by design


class Late(NamedTuple):
    """One rank that comes last, step by step. Times are seconds, on average over all steps."""

    process: Process
    others: list[Process]
    by: float  # later than the last of the others
    step: float
    steps: int  # that were looked at, and
    times: int  # in how many of them it came last
    for_it: float  # which part of the waiting for the last one is waiting for this one
    before: dict[int, float]  # by rank: from when all had left the collective before until it reached this one
    loops: float  # seconds of training that are known
    own: dict[int, float]  # by rank, each step: from when all had left a collective until it reached the next
    span: tuple[float, float]  # when the first and the last of these steps were

    @property
    def share(self) -> float:
        return self.by / self.step if self.step else 0.0

    @property
    def traced(self) -> bool:
        return bool(self.before)


class _Arrival(NamedTuple):
    """All ranks at one collective: which came last, how long after the one before it, and how long each took."""

    last: int
    by: float
    ways: dict[int, float]
    at: float
    in_backward: bool


def latest(case: Case) -> Late | None:
    """None: there is none, it changes hands, or it cannot be told."""
    ranks = [one for one in case.ranks if one.optimizer_steps]
    if len(ranks) < 2 or any(_is_dispatched(one) or _joins(one) for one in ranks):
        return None
    if all(one.collectives for one in ranks):
        return _by_collectives(ranks)
    return _by_waits(ranks)


def trained_loader(process: Process) -> Loader | None:
    """The loader that most of its steps were made with."""
    return max(process.loaders, key=lambda one: one.optimizer_steps, default=None)


def is_own(case: Case, late: Late) -> bool:
    """Its own time is longer than the others': loading and computing, without what it waited for a CPU core.

    Where the machine kept a rank from running, or the workers that it waits for, nothing of that rank's is slow. With
    NCCL the others may be several steps ahead: a step of theirs is longer by one delay for all that.
    """
    mine, *rest = (_own(case, late, one) for one in (late.process, *late.others))
    return mine - max(rest) >= HALF * min(late.by, late.step)


def _own(case: Case, late: Late, process: Process) -> float:
    """Seconds each step. Where the Flight Recorder was not read, of waiting for data alone."""
    loader = trained_loader(process)
    raw = waiting(loader) if loader is not None else None
    fair = fair_waiting(case, process, loader) if loader is not None else None
    if not late.own:
        return fair.waited / max(fair.steps, 1) if fair is not None else 0.0
    taken = (raw.looped - fair.looped) / max(raw.steps, 1) if raw is not None and fair is not None else 0.0
    kept = queued(case, process, *late.span) * late.step
    return late.own[process.rank or 0] - max(taken, kept)


def _is_dispatched(process: Process) -> bool:
    types = [one.type for one in process.loaders]
    types += [one.after.type for one in process.prepared if one.after is not None]
    return any(DISPATCHER in one for one in types)


def _joins(process: Process) -> bool:
    """In there, a rank that has no more data is always first: it only answers."""
    return any(one.name == JOIN for one in process.spans)


def _by_collectives(ranks: list[Process]) -> Late | None:
    """Clocks of two nodes cannot be compared to the millisecond, so only ranks of one node are."""
    if len({one.node for one in ranks}) > 1:
        return _by_waits(ranks)
    arrivals = _arrivals(ranks)
    sequences = max((one.sequence for one in ranks[0].collectives), default=0)
    steps = round(len(arrivals) * min(one.optimizer_steps for one in ranks) / sequences) if sequences else 0
    counted = _counted(arrivals, steps)
    if min(len(counted), steps) < STEPS:
        return None
    slow = max(ranks, key=lambda one: _waited(counted, one.rank))
    mine, all_of_it = _waited(counted, slow.rank), sum(_waited(counted, one.rank) for one in ranks)
    late = [one for one in counted if one.last == slow.rank and one.by >= LEAST]
    if len(late) < OFTEN or mine < MOST * all_of_it or not _throughout(counted, slow.rank):
        return None
    seconds = arrivals[-1].at - arrivals[0].at
    worst = _worst(arrivals, steps)
    return Late(
        process=slow,
        others=[one for one in ranks if one is not slow],
        by=mine / steps,
        step=seconds / steps,
        steps=steps,
        times=len([one for one in worst if one.last == slow.rank]),
        for_it=mine / all_of_it,
        before={number: mean(one.ways[number] for one in worst) for number in worst[0].ways},
        loops=max(seconds, *(_looped(one) for one in ranks)),
        own={one.rank or 0: sum(max(at.ways[one.rank or 0], 0.0) for at in counted) / steps for one in ranks},
        span=(arrivals[0].at, arrivals[-1].at),
    )


def _arrivals(ranks: list[Process]) -> list[_Arrival]:
    """At every collective of the default group that is known of all ranks, between two steps of the same epoch."""
    known = [{one.sequence: one for one in rank.collectives if not one.group} for rank in ranks]
    common = sorted(set.intersection(*(set(one) for one in known)))
    others = [moment for rank in ranks for moment in _boundaries(rank)]
    found = []
    for before, now in pairwise(common):
        operations = {one[now].operation for one in known}
        if now != before + 1 or len(operations) > 1 or operations & set(ONE_WAY):
            continue
        left = max(one[before].at for one in known)
        came = sorted((one[now].at, rank.rank or 0) for one, rank in zip(known, ranks, strict=True))
        if any(left < moment <= came[-1][0] for moment in others):
            continue
        ways = {number: at - left for at, number in came}
        in_backward = any(one[now].calls == "backward" for one in known)
        found.append(_Arrival(came[-1][1], came[-1][0] - came[-2][0], ways, came[-1][0], in_backward))
    return found


def _boundaries(process: Process) -> list[float]:
    """Moments at which something other than the next step begins or ends: an epoch, a validation, a checkpoint."""
    known = [one for one in process.phases if not one.told or one.kind in (VALIDATION, CHECKPOINT)]
    return [moment for one in known for moment in (one.at, one.ended) if moment is not None]


def _worst(arrivals: list[_Arrival], steps: int) -> list[_Arrival]:
    """As many as there were steps."""
    return sorted(arrivals, key=lambda one: -one.by)[:steps]


def _counted(arrivals: list[_Arrival], steps: int) -> list[_Arrival]:
    """Those whose delays add up.

    Where a collective is waited for before the next is called, all do. Elsewhere, as in one backward of DDP, a rank is
    late at several for one and the same delay: then one for each step.
    """
    waited_for = sum(min(one.ways.values()) >= -TICK for one in arrivals) >= SYNCHRONOUS * len(arrivals)
    at_once = sum(one.in_backward for one in arrivals) > steps
    return arrivals if waited_for and not at_once else _worst(arrivals, steps)


def _waited(counted: list[_Arrival], rank: int | None) -> float:
    """Seconds for this rank. What is far longer than usual is no part of every step."""
    known = [one.by for one in counted if one.last == rank]
    usual = median([one for one in known if one >= LEAST] or [LEAST])
    return sum(min(one, UNUSUAL * usual) for one in known)


def _throughout(counted: list[_Arrival], rank: int | None) -> bool:
    ordered = sorted(counted, key=lambda one: one.at)
    size = len(ordered) / QUARTERS
    parts = [ordered[round(size * number) : round(size * (number + 1))] for number in range(QUARTERS)]
    return all(_waited(part, rank) * 2 > sum(one.by for one in part) for part in parts)


def _looped(process: Process) -> float:
    loader = trained_loader(process)
    return waiting(loader).looped if loader is not None else 0.0


def _by_waits(ranks: list[Process]) -> Late | None:
    """One waits for data, and all others are that much longer in the bodies of their loops: there they wait for it."""
    loaders = [loader for one in ranks if (loader := trained_loader(one)) is not None]
    if len(loaders) < len(ranks) or min(one.waits.count for one in loaders) < STEPS:
        return None
    if max(one.waits.count for one in loaders) > min(one.waits.count for one in loaders) + 1:
        return None  # they do not go in step
    waits = [waiting(one).waited / max(waiting(one).steps, 1) for one in loaders]
    slow = max(range(len(ranks)), key=lambda number: waits[number])
    rest = [number for number in range(len(ranks)) if number != slow]
    by = waits[slow] - max(waits[number] for number in rest)
    longer = min(loaders[number].bodies.mean for number in rest) - loaders[slow].bodies.mean
    if by <= 0 or longer < MIRRORED * by:
        return None
    steps = loaders[slow].waits.count
    return Late(
        process=ranks[slow],
        others=[ranks[number] for number in rest],
        by=min(by, longer),
        step=waiting(loaders[slow]).looped / max(waiting(loaders[slow]).steps, 1),
        steps=steps,
        times=steps,
        for_it=1.0,
        before={},
        loops=_looped(ranks[slow]),
        own={},
        span=(0.0, 0.0),
    )
