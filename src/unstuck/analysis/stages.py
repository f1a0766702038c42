"""Where the time of loading goes, stage by stage, and of what kind each stage is: computing, reading or waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..evidence.basics import Slowest, Timing
from ..evidence.loader import Fetching, Loader
from ..evidence.process import Process
from ..report import StageTime
from ..wording.text import duration, kind_in_words, percent, slow_in_words
from .case import Case, once
from .loading import computed, spread
from .loading import fetching as fetching_of
from .processors import queueing

NOT_OF_SAMPLES = ("worker_init_fn",)
SAMPLE, PROCESS, COLLATE = "sample", "process", "collate"  # all of it; what no other stage is around; putting together
COMPUTING, READING, WAITING, QUEUED = "computing", "reading", "waiting", "waiting for a CPU core"
ON_PROCESSOR = 0.7  # of a stage: the rest is waiting for storage, a lock or sleep
PAGE = 4096  # bytes each time: less is not what is waited for
RATE = 1 << 20  # bytes a second of waiting that were asked for: what is read so fast is what is waited for
SHOWN = 3  # slow items of a stage
LEAST = 0.02  # of loading: smaller stages are left out
MANY_RANKS = 8  # that are looked into


class Loading(NamedTuple):
    """What loading for one loader cost, and who did it."""

    processes: list[Process]
    fetching: list[Fetching]
    fetched: float  # seconds in all
    sampled: float  # of which in samples
    collated: float
    staged: float  # and, of those in samples, in stages that are known


@once
def stage_times(case: Case) -> list[StageTime]:
    """Of every loader whose samples take time, the most costly first."""
    mains = case.mains[:MANY_RANKS]
    return [one for main in mains for loader in main.loaders for one in of_loader(case, main, loader)]


def of_loader(case: Case, main: Process, loader: Loader) -> list[StageTime]:
    loading = _loading(case, main, loader)
    if loading is None:
        return []
    held_up = queueing(case, main, loading.processes)
    found = [*_known(loading), *_rest(case, main, loader, loading)]
    told = [_told(main, loader, loading, one, _kind(one, held_up)) for one in found]
    return sorted((one for one in told if one is not None), key=lambda one: -one.seconds)


class _Cost(NamedTuple):
    name: str
    timing: Timing
    processor: float | None  # share
    slowest: list[Slowest]
    # Of some of these times, or of all: how many, their seconds, and the bytes in them. None: bytes are not known.
    times: int = 0
    seconds: float = 0.0
    read: float | None = None
    fetched: float = 0.0


def _loading(case: Case, main: Process, loader: Loader) -> Loading | None:
    fetching = fetching_of(case, main, loader)
    fetched = sum(one.fetches.total for one in fetching)
    if not fetched:
        return None
    processes = case.workers_of(main, loader) if loader.num_workers else [main]
    collated = sum(one.collates.total for one in fetching)
    sampled = sum(one.sample_times.total for one in fetching) or fetched - collated
    staged = min(sum(one.staged for one in processes), sampled)
    return Loading(processes, fetching, fetched, sampled, collated, staged)


def _known(loading: Loading) -> Iterable[_Cost]:
    if not loading.staged:
        return
    names = {name: None for one in loading.processes for name in one.stages if name not in NOT_OF_SAMPLES}
    for name in names:
        timing = together(one.stages[name] for one in loading.processes if name in one.stages)
        cpu = together(one.stage_cpu[name] for one in loading.processes if name in one.stage_cpu)
        of = together(one.stage_cpu_of[name] for one in loading.processes if name in one.stage_cpu_of)
        mean = of.mean or timing.mean  # in older recordings it is not known how long just those times took
        share = min(cpu.mean / mean, 1.0) if cpu.count and mean else None
        known = any(name in one.stage_read for one in loading.processes)
        read = sum(one.stage_read.get(name, 0) for one in loading.processes)
        fetched = sum(one.stage_fetched.get(name, 0) for one in loading.processes)
        slowest = _slowest(loading.processes, name)
        yield _Cost(name, timing, share, slowest, of.count, of.total, read if known else None, fetched)


def _rest(case: Case, main: Process, loader: Loader, loading: Loading) -> Iterable[_Cost]:
    """What is done for a sample outside of all stages that are known, and collating."""
    sample_times = together(one.sample_times for one in loading.fetching)
    rest = max(loading.sampled - loading.staged, 0.0)
    count = sample_times.count or sum(one.fetches.count for one in loading.fetching)
    timing = Timing(count, rest) if loading.staged else sample_times if sample_times.count else Timing(count, rest)
    name = PROCESS if loading.staged else SAMPLE
    processor, slowest = _processor_of_rest(loading, rest), _slowest(loading.processes, SAMPLE)
    read, fetched = (_grown(case, main, loader, loading.processes, one) for one in ("read", "from_disk"))
    if read is not None:
        read = max(read - _of_stages(loading, lambda one: one.stage_read), 0.0)
        fetched = max((fetched or 0.0) - _of_stages(loading, lambda one: one.stage_fetched), 0.0)
    yield _Cost(name, timing, processor, slowest, timing.count, rest, read, fetched or 0.0)
    if loading.collated:
        yield _Cost(COLLATE, together(one.collates for one in loading.fetching), None, [])


def _processor_of_rest(loading: Loading, rest: float) -> float | None:
    """Processor time of all fetching, without that of the stages; collating is taken for computing."""
    if rest <= 0 or not any(one.cpu.count for one in loading.fetching):
        return None
    fetched = sum(computed(one) for one in loading.fetching)
    staged = sum(
        _cpu_of_stage(process, name) for process in loading.processes for name in process.stages if loading.staged
    )
    return min(max((fetched - staged - loading.collated) / rest, 0.0), 1.0)


def _cpu_of_stage(process: Process, name: str) -> float:
    """Seconds of CPU time, of all times by those of which it was measured."""
    cpu, of, timing = process.stage_cpu.get(name), process.stage_cpu_of.get(name), process.stages[name]
    if cpu is None:
        return 0.0
    return min(cpu.total / of.total, 1.0) * timing.total if of is not None and of.total else cpu.mean * timing.count


def _kind(cost: _Cost, held_up: float | None) -> str:
    """By CPU time against time, by what the kernel says of waiting for a core, and by the bytes that came meanwhile."""
    if cost.processor is None:
        return ""
    if cost.processor >= ON_PROCESSOR:
        return COMPUTING
    parts = spread(cost.processor, held_up)
    if parts.queued > parts.blocked:
        return QUEUED
    if cost.read is None:
        return ""
    page = PAGE * max(cost.times, 1)
    reads = cost.fetched >= page or cost.read >= max(RATE * parts.blocked * cost.seconds, page)
    return READING if reads else WAITING


def _of_stages(loading: Loading, counted: Callable[[Process], dict[str, int]]) -> float:
    """Bytes in all stages, all times together, by those of which they were measured."""
    found: list[float] = [
        count * process.stages[stage].count / max(process.stage_cpu_of[stage].count, 1)
        for process in loading.processes
        for stage, count in counted(process).items()
        if stage in process.stages and stage in process.stage_cpu_of
    ]
    return sum(found)


def _grown(case: Case, main: Process, loader: Loader, processes: list[Process], name: str) -> float | None:
    """Bytes, of all these processes together, while they loaded. None: not looked at, or only at their imports too."""
    host, found = case.host_of(main), []
    for one in processes:
        began = one.opened if one.role == "worker" else loader.began or one.opened
        seen = [
            (sample.at, value)
            for sample in (host.samples if host is not None else ())
            for memory in sample.processes
            if memory.pid == one.pid and (value := getattr(memory, name)) is not None
        ]
        if one.threads_at_fork is not None and one.role == "worker":  # all that it has read, it has read for samples
            seen = [(began, 0), *seen]
        later = [each for each in seen if each[0] >= began]
        if len(later) > 1:
            lasted = max((one.ended if one.ended is not None else one.last_sign) - began, later[-1][0] - later[0][0])
            found.append((later[-1][1] - later[0][1]) * lasted / max(later[-1][0] - later[0][0], 1e-3))
    return sum(found) if found else None


def _told(main: Process, loader: Loader, loading: Loading, one: _Cost, kind: str) -> StageTime | None:
    share = one.timing.total / loading.fetched
    if share < LEAST:
        return None
    return StageTime(
        rank=main.rank,
        loader=loader.name,
        name=one.name,
        share=round(min(share, 1.0), 4),
        seconds=round(one.timing.total, 6),
        count=one.timing.count,
        mean=one.timing.mean,
        p50=one.timing.p50 or None,
        p95=one.timing.p95 or None,
        longest=one.timing.longest or None,
        processor=None if one.processor is None else round(one.processor, 3),
        kind=COMPUTING if one.name == COLLATE else kind,
        slowest=one.slowest,
    )


def _slowest(processes: list[Process], name: str) -> list[Slowest]:
    found = [slow for one in processes for slow in one.slowest if slow.stage == name]
    return sorted(found, key=lambda slow: -slow.seconds)[:SHOWN]


def together(timings: Iterable[Timing]) -> Timing:
    """Of several processes. Their quantiles are averaged, each by its count: exact enough for buckets of two."""
    known = [one for one in timings if one.count]
    count = sum(one.count for one in known)
    if not count:
        return Timing()
    p50, p95, p99 = (sum(getattr(one, name) * one.count for one in known) / count for name in ("p50", "p95", "p99"))
    return Timing(count, sum(one.total for one in known), max(one.longest for one in known), p50, p95, p99)


def in_words(case: Case, main: Process, loader: Loader) -> list[str]:
    """Which stage takes most, of what kind it is, and its slowest item; nothing where no stage is known."""
    found = of_loader(case, main, loader)
    most = found[0] if found else None
    if most is None or not any(one.name not in (SAMPLE, COLLATE, PROCESS) for one in found):
        return []
    kind = f", {kind_in_words(most.kind, most.processor)}" if most.kind else ""
    slow = f"; the slowest: {slow_in_words(most.slowest[0])}" if most.slowest else ""
    return [f"{percent(most.share)} of loading is the stage {most.name}, {duration(most.mean)} each{kind}{slow}"]
