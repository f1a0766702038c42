"""Where the time of loading goes, stage by stage, and of what kind each stage is: computing, reading or waiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .crowding import crowds
from .evidence import Evidence, Memory
from .phrases import duration, percent
from .questions import host_of, loader_name, workers_of
from .recorded import Fetching, Loader, Process
from .report import StageTime
from .timing import Slowest, Timing
from .waiting import fetching as fetching_of

NOT_OF_SAMPLES = ("worker_init_fn",)
SAMPLE, PROCESS, COLLATE = "sample", "process", "collate"  # all of it; what no other stage is around; putting together
COMPUTING, READING, WAITING, QUEUED = "computing", "reading", "waiting", "waiting for a processor"
ON_PROCESSOR = 0.7  # of a stage: the rest is waiting for storage, a lock or sleep
FROM_DISK = 4096  # bytes a sample that came from a disk: one page
RATE = 1 << 20  # bytes a second of waiting that were asked for: what is read so fast is what is waited for
NO_PROCESSOR = 0.33  # of the time in which workers wanted to run
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


def stage_times(evidence: Evidence) -> list[StageTime]:
    """Of every loader whose samples take time, the most costly first."""
    mains = evidence.mains()[:MANY_RANKS]
    return [one for main in mains for loader in main.loaders for one in of_loader(evidence, main, loader)]


def of_loader(evidence: Evidence, main: Process, loader: Loader) -> list[StageTime]:
    loading = _loading(evidence, main, loader)
    if loading is None:
        return []
    found = [*_known(loading), *_rest(loading)]
    waits = _kind_of_waits(evidence, main, loading, found)
    told = [_told(main, loader, loading, one, waits) for one in found]
    return sorted((one for one in told if one is not None), key=lambda one: -one.seconds)


class _Cost(NamedTuple):
    name: str
    timing: Timing
    processor: float | None  # share
    slowest: list[Slowest]


def _loading(evidence: Evidence, main: Process, loader: Loader) -> Loading | None:
    fetching = fetching_of(evidence, main, loader)
    fetched = sum(one.fetches.total for one in fetching)
    if not fetched:
        return None
    processes = workers_of(evidence, main, loader) if loader.num_workers else [main]
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
        share = min(cpu.mean / timing.mean, 1.0) if cpu.count and timing.mean else None
        yield _Cost(name, timing, share, _slowest(loading.processes, name))


def _rest(loading: Loading) -> Iterable[_Cost]:
    """What is done for a sample outside of all stages that are known, and collating."""
    sample_times = together(one.sample_times for one in loading.fetching)
    rest = max(loading.sampled - loading.staged, 0.0)
    count = sample_times.count or sum(one.fetches.count for one in loading.fetching)
    timing = Timing(count, rest) if loading.staged else sample_times if sample_times.count else Timing(count, rest)
    name = PROCESS if loading.staged else SAMPLE
    yield _Cost(name, timing, _processor_of_rest(loading, rest), _slowest(loading.processes, SAMPLE))
    if loading.collated:
        yield _Cost(COLLATE, together(one.collates for one in loading.fetching), None, [])


def _processor_of_rest(loading: Loading, rest: float) -> float | None:
    """Processor time of all fetching, without that of the stages; collating is taken for computing."""
    fetched = [(one.cpu.mean * one.fetches.count) for one in loading.fetching if one.cpu.count]
    if not fetched or rest <= 0:
        return None
    staged = sum(
        cpu.mean * process.stages[name].count
        for process in loading.processes
        for name, cpu in process.stage_cpu.items()
        if name in process.stages and loading.staged
    )
    return min(max((sum(fetched) - staged - loading.collated) / rest, 0.0), 1.0)


def _kind_of_waits(evidence: Evidence, main: Process, loading: Loading, found: list[_Cost]) -> str:
    """What these processes wait for when they do not compute, by what the watcher saw of them."""
    pids = {one.pid for one in loading.processes}
    mine = [one for one in crowds(evidence) if any(use.process.pid in pids for use in one.workers)]
    if any(one.queued >= NO_PROCESSOR for one in mine):
        return QUEUED
    host = host_of(evidence, main)
    seen = [one for sample in (host.samples if host else ()) for one in sample.processes if one.pid in pids]
    asked, fetched = (_grown(seen, name) for name in ("read", "from_disk"))
    if asked is None:
        return ""
    samples = sum(one.samples for one in loading.fetching) or 1
    waited = sum(one.timing.total * (1 - one.processor) for one in found if one.processor is not None)
    reads = (fetched or 0) >= FROM_DISK * samples or (waited > 0 and asked >= RATE * waited)
    return READING if reads else WAITING


def _grown(seen: list[Memory], name: str) -> int | None:
    """Bytes, of all these processes together, since each was begun."""
    newest = {one.pid: value for one in seen if (value := getattr(one, name)) is not None}
    return sum(newest.values()) if newest else None


def _told(main: Process, loader: Loader, loading: Loading, one: _Cost, waits: str) -> StageTime | None:
    share = one.timing.total / loading.fetched
    if share < LEAST:
        return None
    kind = "" if one.processor is None else COMPUTING if one.processor >= ON_PROCESSOR else waits
    return StageTime(
        rank=main.rank,
        loader=loader_name(loader),
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


def in_words(evidence: Evidence, main: Process, loader: Loader) -> list[str]:
    """Which stage takes most, of what kind it is, and its slowest item; nothing where no stage is known."""
    found = of_loader(evidence, main, loader)
    most = found[0] if found else None
    if most is None or not any(one.name not in (SAMPLE, COLLATE, PROCESS) for one in found):
        return []
    kind = f", {kind_in_words(most)}" if most.kind else ""
    slow = f"; the slowest: {slow_in_words(most.slowest[0])}" if most.slowest else ""
    return [f"{percent(most.share)} of loading is the stage {most.name}, {duration(most.mean)} each{kind}{slow}"]


def kind_in_words(one: StageTime) -> str:
    on = f" ({percent(one.processor)} on the processor)" if one.processor is not None else ""
    return f"{one.kind}{on}"


def slow_in_words(one: Slowest) -> str:
    name = one.item or (f"index {one.index}" if one.index is not None else "a sample")
    return f"{name} with {duration(one.seconds)}"
