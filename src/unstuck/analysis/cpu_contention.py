"""Time in which a run was ready to run and other programs had the CPU cores; and what a wait comes to without it.

Recorded times are wall times. A thread that is ready and has no core waits, and so does whoever waits for it: on a
machine that is busy with something else, all of that looks like slow loading. The kernel counts for every main thread
how long it ran and how long it was ready (`queued`); the rest of the time it was blocked: asleep, waiting for a file, a
lock or another process. Queueing is taken off only while other programs had the cores: a run whose own processes crowd
them is slow by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import NamedTuple

from ..evidence import Host, Memory, Sample
from ..evidence.loader import Fetching, Loader
from ..evidence.process import Process
from ..wording.text import duration, numbers, percent
from .case import Case
from .first_batch import First
from .loading import MAKING, Waiting, WorkerStart, computed, fetching, waiting
from .processors import NOTHING

OTHERS = 0.25  # of the CPU cores that the run may use, by other programs: below that, it is in its own way
MOST = 0.5  # of a stretch between two looks: what was before and after it is then left aside
CLOCKS = ("main_cpu", "cpu")  # of its main thread, of all its threads
TOLD = 0.05  # of a time: less is not worth a line
REMAINS = 0.2  # of a loop: its shares of less than that are chance


class Spent(NamedTuple):
    """What the main thread of a process did in some seconds."""

    seconds: float
    ran: float
    queued: float  # ready to run, without a core

    @property
    def blocked(self) -> float:
        """Asleep, or waiting for a file, a lock, another process."""
        return max(self.seconds - self.ran - self.queued, 0.0)

    @property
    def held_up(self) -> float:
        """Which part of the time in which it wanted to run it had no core."""
        wanted = self.ran + self.queued
        return self.queued / wanted if wanted > 0 else 0.0


def spent(case: Case, process: Process, begin: float, end: float) -> Spent | None:
    """By the looks around that stretch, as if it were like all of the time between them. None: not looked at."""
    looks = _looks(case, process)
    if len(looks) < 2 or end <= begin:
        return None
    first, last = _around([one[0] for one in looks], begin, end)
    (since, before), (until, after) = looks[first], looks[last]
    scale = (end - begin) / (until - since)
    return Spent(
        seconds=end - begin,
        ran=((after.main_cpu or 0.0) - (before.main_cpu or 0.0)) * scale,
        queued=((after.queued or 0.0) - (before.queued or 0.0)) * scale,
    )


class Cores(NamedTuple):
    """CPU cores of a node, on average over some seconds."""

    there_are: float
    may_use: float  # the run, by its affinity and its quota
    used: float  # by all processes of the run
    idle: float

    @property
    def others(self) -> float:
        """By other programs."""
        return max(self.there_are - self.idle - self.used, 0.0)

    @property
    def free(self) -> float:
        """That the run could use, too."""
        return max(min(self.idle, self.may_use - self.used), 0.0)


def cores(case: Case, process: Process, begin: float, end: float) -> Cores | None:
    """None: not looked at, or its process may run on some of them only, and what the others do does not matter."""
    host = case.host_of(process)
    samples = [one for one in host.samples if one.idle is not None] if host is not None else []
    if host is None or not host.cpus or len(samples) < 2 or _is_pinned(host, process):
        return None
    first, last = _around([one.at for one in samples], begin, end)
    seconds = samples[last].at - samples[first].at
    idle = (samples[last].idle or 0.0) - (samples[first].idle or 0.0)
    own = _own(case, host, samples[first], samples[last])
    there_are = max(len(numbers(host.granted)), host.cpus)
    return Cores(there_are, min(host.cpus, host.quota or host.cpus), own / seconds, idle / seconds)


def cores_of_loop(case: Case, main: Process, loader: Loader) -> Cores | None:
    """While the batches of this loader were looped over."""
    return cores(case, main, _looped_from(loader), _looped_until(main, loader))


def others(case: Case, process: Process, begin: float, end: float) -> float:
    """Which part of the CPU cores other programs had; 0: the run had most of what it may use, or it is not known."""
    found = cores(case, process, begin, end)
    if found is None or found.used > (1 - OTHERS) * found.may_use or found.others < OTHERS * found.may_use:
        return 0.0
    return found.others / found.there_are


def queued(case: Case, process: Process, begin: float, end: float) -> float:
    """Which part of that stretch it was ready to run and had no core, whoever had it; 0: not known.

    The kernel is asked of its main thread alone. Threads that this one waits for are taken to be held up as it is.
    """
    found, looks = spent(case, process, begin, end), _looks(case, process)
    if found is None or found.queued <= 0:
        return 0.0
    alone, whole = ((getattr(looks[-1][1], name) or 0.0) - (getattr(looks[0][1], name) or 0.0) for name in CLOCKS)
    return min(found.queued / found.seconds * (max(whole / alone, 1.0) if alone > 0 else 1.0), 1.0)


def starved(case: Case, process: Process, begin: float, end: float) -> float:
    """Seconds of that stretch in which it was ready to run and other programs had the cores."""
    found = spent(case, process, begin, end)
    if found is None or found.queued <= 0 or not others(case, process, begin, end):
        return 0.0
    return min(found.queued, found.seconds)


def held_up(case: Case, process: Process, begin: float, end: float) -> float:
    """Which part of the time in which it wanted to run other programs had the cores."""
    found = spent(case, process, begin, end)
    if found is None or not others(case, process, begin, end):
        return 0.0
    return found.held_up


def fair_waiting(case: Case, main: Process, loader: Loader) -> Waiting:
    """What a loop waited for its batches, without the time in which other programs had the cores.

    No steps: they had nearly all of it, and what remains is no more than the counts are off by.
    """
    raw = waiting(loader)
    begin, end = _looped_from(loader), _looped_until(main, loader)
    found = spent(case, main, begin, end)
    if found is None or raw.looped <= 0 or not others(case, main, begin, end):
        return raw
    queued, ran = (min(one / found.seconds, 1.0) * raw.looped for one in (found.queued, found.ran))
    own, computed = raw.looped - raw.waited, _computed(fetching(case, main, loader))
    in_waits = computed if loader.num_workers == 0 else 0.0
    of_waits = max(min(queued, raw.waited - in_waits), 0.0)  # in doubt it was in the waits: that is not held against it
    of_body = min(max(ran - in_waits, 0.0), own)  # what it computed itself, it did not queue
    waited, bodies = raw.waited - of_waits, max(own - (queued - of_waits), of_body)
    if loader.num_workers:
        of_workers, loading = _of_workers(case, main, loader, raw.looped)
        waited, least = waited - of_workers, min(own, max(ran, own - queued))
        known = min(loading - least, raw.waited)  # what the workers did takes longer than what the loop did
        waited, bodies = (known, least) if known > max(waited, 0.0) else (max(waited, 0.0), bodies)
    if waited + bodies < REMAINS * raw.looped:
        return Waiting(0.0, 0.0, 0, raw.looped)
    return Waiting(waited, waited + bodies, raw.steps, raw.looped - waited - bodies)


def fair_first(case: Case, main: Process, first: First) -> First:
    """The first batch and those after it, without the time in which other programs had the cores."""
    loader, end = first.loader, first.began + first.seconds
    loading = case.workers_of(main, loader) if loader is not None and loader.num_workers else [main]
    seen = [starved(case, one, first.began, end) for one in loading if _seen(case, one)]
    seconds = max(first.seconds - (mean(seen) if seen else 0.0), 0.0)
    of = max(first.of - starved(case, main, first.began, first.began + first.of), seconds)
    if loader is None:
        return first._replace(seconds=seconds, of=of, later=_later(case, main, first))
    raw, fair = waiting(loader), fair_waiting(case, main, loader)
    part = fair.waited / raw.waited if raw.waited > 0 else 1.0
    later = None if first.later is None else first.later * part
    return first._replace(
        seconds=seconds, of=of, later=later, later_share=fair.share if part < 1 else first.later_share
    )


def fair_start(case: Case, main: Process, loader: Loader, seconds: float) -> float:
    """What that many seconds, in which workers start and load their first batch, come to without queueing.

    Where none of them lived long enough to be seen, they are taken to be held up as their main process is.
    """
    known = [found for one in case.workers_of(main, loader) if (found := _at_start(case, one, seconds))]
    begin, end = _looped_from(loader), _looped_until(main, loader)
    if not others(case, main, begin, end):
        return seconds
    if not known:
        return seconds * (1.0 - held_up(case, main, begin, end))
    return max(seconds - mean(one.queued for one in known), 0.0)


def fair_worker_start(case: Case, main: Process, loader: Loader, start: WorkerStart) -> WorkerStart:
    """The start of the workers of a first pass. Making them is their main process's work, the rest is their own."""
    begun = [one.started if one.started is not None else one.opened for one in start.workers]
    until = (loader.began or 0.0) + start.seconds
    seen = [
        starved(case, one, at, max(until, at)) / (until - at)
        for one, at in zip(start.workers, begun, strict=True)
        if until > at and _seen(case, one)
    ]
    part = 1.0 - (min(mean(seen), 1.0) if seen else 0.0)
    parts = {name: seconds * part for name, seconds in start.parts.items()}
    parts[MAKING] = fair_making(case, main, loader, start.parts[MAKING])
    own = max(start.seconds - start.parts[MAKING], 0.0) * part
    return start._replace(seconds=min(own + parts[MAKING], start.seconds), parts=parts)


def fair_run(case: Case, main: Process, loader: Loader, seconds: float) -> float:
    """What that many seconds of a run, from the first pass over this loader on, come to without queueing."""
    begin = _looped_from(loader)
    end = max(main.ended or main.last_sign, begin)
    return max(seconds - starved(case, main, begin, end), 0.0)


def fair_making(case: Case, main: Process, loader: Loader, seconds: float) -> float:
    """The same of work that a main process does without waiting for anything, such as to start processes."""
    return seconds * (1.0 - held_up(case, main, _looped_from(loader), _looped_until(main, loader)))


def fair_loading(case: Case, main: Process, loader: Loader, seconds: float) -> float:
    """The same of one batch that a worker loads: at least what was computed for it remains."""
    loads = fetching(case, main, loader)
    count = sum(one.fetches.count for one in loads)
    if not count:
        return seconds
    until = _looped_until(main, loader)
    queued = sum(starved(case, one, one.opened, one.ended or until) for one in case.workers_of(main, loader))
    return min(max(seconds - queued / count, _computed(loads) / count), seconds)


def left_out(case: Case, main: Process, loader: Loader, loop: Waiting) -> Iterable[str]:
    """A line of evidence where it makes a difference."""
    if loop.taken >= TOLD * loop.lasted > 0:
        had = others(case, main, _looped_from(loader), _looped_until(main, loader))
        yield (
            f"other programs had {percent(had)} of the CPU cores: {duration(loop.taken)} in which this run was ready "
            "and had no core are left out"
        )


def _around(moments: list[float], begin: float, end: float) -> tuple[int, int]:
    """The first and the last of these moments in a stretch if they span most of it, else those around it."""
    inside = [number for number, at in enumerate(moments) if begin <= at <= end]
    if inside and moments[inside[-1]] - moments[inside[0]] >= MOST * (end - begin):
        return inside[0], inside[-1]
    first = max((number for number, at in enumerate(moments) if at <= begin), default=0)
    first = min(first, len(moments) - 2)
    last = min((number for number, at in enumerate(moments) if at >= end), default=len(moments) - 1)
    return first, max(last, first + 1)


def _is_pinned(host: Host, process: Process) -> bool:
    """It may run on some of the cores only: who had just those is not known."""
    return any(one.pinned for sample in host.samples for one in sample.processes if one.pid == process.pid)


def _looks(case: Case, process: Process) -> list[tuple[float, Memory]]:
    """All counters begin with the process."""
    host = case.host_of(process)
    seen = [
        (sample.at, one)
        for sample in (host.samples if host is not None else ())
        for one in sample.processes
        if one.pid == process.pid and one.main_cpu is not None and one.queued is not None
    ]
    born = process.started if process.started is not None else process.opened
    return [(born, NOTHING), *seen] if seen and born < seen[0][0] else seen


def _seen(case: Case, process: Process) -> bool:
    return len(_looks(case, process)) > 1


def _own(case: Case, host: Host, first: Sample, last: Sample) -> float:
    """Seconds of CPU time that the run itself used between two samples, at most.

    Of a worker that no look has met, all of its life counts in which it had something to do.
    """
    before = {one.pid: one.cpu or 0.0 for one in first.processes}
    after: dict[int, float] = {}
    for sample in host.samples:
        if first.at < sample.at <= last.at:
            after |= {one.pid: one.cpu for one in sample.processes if one.cpu is not None}
    used = sum(max(cpu - before.get(pid, 0.0), 0.0) for pid, cpu in after.items())
    unseen = [
        one
        for one in case.recording or ()
        if one.node == host.node and one.pid not in after and one.pid not in before and one.role == "worker"
    ]
    return used + sum(_busy(one, first.at, last.at) for one in unseen)


def _busy(worker: Process, begin: float, end: float) -> float:
    ended = worker.ended if worker.ended is not None else worker.last_sign
    lived = max(ended - worker.opened, 0.0)
    within = max(min(ended, end) - max(worker.opened, begin), 0.0)
    busy = max(lived - sum(one.idle.total for one in worker.fetching), 0.0)
    return min(busy, within)


def _looped_from(loader: Loader) -> float:
    known = [one for one in (loader.began, loader.first_at) if one is not None]
    return min(known, default=loader.states[0].at if loader.states else 0.0)


def _looped_until(main: Process, loader: Loader) -> float:
    ended = main.ended if main.ended is not None else main.last_sign
    return loader.now_since if loader.now_since > _looped_from(loader) else ended


def _computed(loads: Sequence[Fetching]) -> float:
    """Seconds of CPU time that fetching took: it is measured of some batches only."""
    return sum(computed(one) for one in loads)


def _idle_share(loads: Sequence[Fetching]) -> float:
    idle = sum(one.idle.total for one in loads)
    worked = sum(one.fetches.total + one.handovers.total for one in loads)
    return idle / (idle + worked) if idle + worked > 0 else 0.0


def _of_workers(case: Case, main: Process, loader: Loader, seconds: float) -> tuple[float, float]:
    """While its batches were looped over, on average: seconds that a worker of this loader was queued, and loaded."""
    queued = lived = 0.0
    for one in case.workers_of(main, loader):
        looks = _looks(case, one)
        if len(looks) > 1:
            queued += starved(case, one, looks[0][0], looks[-1][0])
            lived += looks[-1][0] - looks[0][0]
    took = min(queued / lived * seconds, seconds) if lived > 0 else 0.0
    loads = fetching(case, main, loader)
    return took, max((1.0 - _idle_share(loads)) * seconds - took, _computed(loads) / loader.num_workers)


def _at_start(case: Case, worker: Process, seconds: float) -> Spent | None:
    """The first seconds of a worker that had something to do.

    What it was queued until the first look that came late enough is shared out over the time in which it had.
    """
    looks = _looks(case, worker)
    if len(looks) < 2:
        return None
    born = looks[0][0]
    at, seen = next((one for one in looks[1:] if one[0] - born >= seconds), looks[-1])
    age = at - born
    ended = worker.ended if worker.ended is not None else max(worker.last_sign, at)
    idle = sum(one.idle.total for one in worker.fetching) * min(age / max(ended - born, age), 1.0)
    part = seconds / max(age - idle, min(seconds, age))
    queued, ran = (seen.queued or 0.0), (seen.main_cpu or 0.0)
    return Spent(seconds, min(ran * part, seconds), min(queued * part, seconds))


def _later(case: Case, main: Process, first: First) -> float | None:
    """Seconds for each batch after the first of a generator, which its main thread gets by itself."""
    if first.later is None or not first.others:
        return first.later
    begin = first.began + first.seconds
    return max(first.later - starved(case, main, begin, first.began + first.of) / first.others, 0.0)
