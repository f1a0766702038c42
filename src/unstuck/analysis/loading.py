"""How loops waited for their batches, what each worker brought, and how long workers took to start."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ..evidence.loader import Fetching, FetchState, Handed, Loader, Shards
from ..evidence.process import Process
from ..wording.text import who
from .case import Case
from .passes import crews, phases_of

# How long a loop waited for its batches, and who loaded them: what all rules about slow loading start from.
SHARE = 0.3  # of looping: a GPU busy less than 70 % of the time is the usual mark of a loader that does not keep up
BATCHES = 10  # fewer are start-up
SECONDS = 3.0  # of looping: the same; rules that say it of any loader ask for more
FEW, SLOWLY = 3, 2.0  # batches and seconds of such a loop, where batches come slowly
TRIED = 0.5  # seconds of a loop that only goes through a loader: nothing else warms up in it


class Waiting(NamedTuple):
    """Of one loader: seconds waited for batches, seconds of looping in all, and steps. First batches are left aside.

    So are batches that a resumed run only passes over.
    """

    waited: float
    looped: float
    steps: int
    taken: float = 0.0  # seconds that other programs took from both, where that was found out

    @property
    def lasted(self) -> float:
        """Seconds of looping, by the clock."""
        return self.looped + self.taken

    @property
    def share(self) -> float:
        return self.waited / self.looped if self.looped else 0.0

    @property
    def matters(self) -> bool:
        """The loop would gain by faster loading, and there is enough of it to say so."""
        return self.steps >= BATCHES and self.lasted >= SECONDS and self.share >= SHARE


def holds_up(case: Case, loader: Loader) -> bool:
    """The same question of a loader that is only tried: a loop that does nothing else waits all the time anyway."""
    waited = waiting(loader)
    if any(one.optimizer_steps for one in case.mains):
        return waited.matters
    quick = waited.steps >= BATCHES and waited.looped >= TRIED
    slow = waited.steps >= FEW and waited.looped >= SLOWLY
    return (quick or slow) and waited.share >= SHARE


def waiting(loader: Loader) -> Waiting:
    waited = loader.waits.total - loader.skipped.total
    looped = waited + loader.bodies.total - loader.skipped_bodies
    return Waiting(waited, looped, loader.waits.count - loader.skipped.count)


def fetching(case: Case, main: Process, loader: Loader) -> list[Fetching]:
    """What loading cost each process that did it: the workers, or the main process itself."""
    if loader.num_workers == 0:
        return [one for one in main.fetching if one.loader == loader.number]
    return [one for worker in case.workers_of(main, loader) for one in worker.fetching]


def computed(load: Fetching) -> float:
    """Seconds of CPU time that its fetches took, by those of them whose CPU time was measured."""
    if load.cpu.count and load.cpu_of.total:
        return min(load.cpu.total / load.cpu_of.total, 1.0) * load.fetches.total
    return load.cpu.mean * load.fetches.count  # an older recording: how long just those took is not known


def on_core(fetching: list[Fetching]) -> float | None:
    """Which part of the time of fetching was CPU time. None: it was not measured."""
    known = [one for one in fetching if one.cpu.count]
    total = sum(one.fetches.total for one in known)
    return min(sum(computed(one) for one in known) / total, 1.0) if total else None


class Spread(NamedTuple):
    """What a time went into, in shares."""

    computing: float
    queued: float  # ready to run, without a CPU core
    blocked: float  # asleep, or waiting for a file, a lock, another process


def spread(computing: float, queueing: float | None) -> Spread:
    """`queueing`: seconds without a core for each second of computing; None: the kernel was not asked."""
    queued = min(computing * (queueing or 0.0), 1.0 - computing)
    return Spread(computing, queued, 1.0 - computing - queued)


def typical(fetching: list[Fetching]) -> Handed | None:
    """The batch that is in the middle by the number of its tensors, of all that were looked at."""
    batches = sorted((batch for one in fetching for batch in one.handed), key=lambda batch: batch.tensors)
    return batches[len(batches) // 2] if batches else None


def handing(fetching: list[Fetching]) -> float:
    """Which part of a worker's work goes into handing batches over, rather than into fetching them."""
    handed = sum(one.handovers.total for one in fetching)
    worked = handed + sum(one.fetches.total for one in fetching)
    return handed / worked if worked else 0.0


def lasted(process: Process) -> float:
    """Seconds from the beginning of the first pass over a loader to the last sign of life."""
    begun = [loader.states[0].at for loader in process.loaders if loader.states]
    return max((process.ended or process.last_sign) - min(begun, default=process.opened), 0.0)


# The workers of an iterable dataset in one pass: how much each brought, when its stream ended, how long it worked.
LASTED = 1.0  # seconds of a pass: in a shorter one the start of the workers is all there is
LOOPED = 3.0  # seconds of all passes: less costs nobody anything
FEWER = 0.7  # of the samples of the worker that has most: a quarter more or less is what real data has
EARLY = 0.25  # of the pass, before whose end a worker has no more
SAVED = 0.2  # of the pass, if all ended together
LEAST = 0.5  # seconds, in all
ON_PROCESSOR = 0.5  # of the time in which a batch is made: more workers than processors would not make it faster


class Stream(NamedTuple):
    """One worker in one pass. Over many passes of persistent workers it is what one of them has on average."""

    worker: Process
    samples: int
    worked: float  # seconds
    ended: float  # when it had no more


class Crew(NamedTuple):
    """All workers of one pass that came to its end, by their number."""

    main: Process
    loader: Loader
    number: int  # of the pass
    began: float
    ended: float
    streams: list[Stream]
    side_by_side: int  # how many of them the processors can run at once

    @property
    def lasted(self) -> float:
        return max(self.ended - self.began, 0.0)

    @property
    def last(self) -> Stream:
        return max(self.streams, key=lambda one: one.ended)

    @property
    def evenly(self) -> float:
        """Seconds that the same work would take if all of them ended together; never less than the loop's own."""
        worked = sum(one.worked for one in self.streams)
        bodies = self.loader.bodies.mean * self.loader.batches / max(self.loader.passes, 1)
        return max(worked / self.side_by_side, bodies, 0.0)

    @property
    def early(self) -> list[Stream]:
        """Workers that had far less than the one that went on to the end, the first to be through first."""
        last = self.last
        found = [
            one
            for one in self.streams
            if one.samples <= FEWER * last.samples and last.ended - one.ended >= EARLY * self.lasted
        ]
        return sorted(found, key=lambda one: one.ended)

    @property
    def costs(self) -> bool:
        """The loop waits for data, and would have been through far earlier had all workers ended together."""
        saved = self.lasted - self.evenly
        known = waiting(self.loader)
        slow = known.share >= SHARE and known.looped >= LOOPED and self.lasted >= LASTED
        return slow and saved >= max(SAVED * self.lasted, LEAST) and bool(self.early)

    @property
    def totals(self) -> str:
        """Worker 0 40 samples, worker 1 260."""
        known = [f"{who(one.worker).partition(' (')[0]}: {one.samples:,}" for one in self.streams]
        return ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")


def newest_crew(case: Case, main: Process, loader: Loader) -> Crew | None:
    """Of the newest pass that came to its end, if all its workers are known."""
    if not loader.iterable or loader.num_workers < 2 or not loader.ended:
        return None
    number = loader.ended[-1].number
    phase = next((one for one in phases_of(main, loader) if one.number_of_pass == number), None)
    known = crews(case, main, loader)
    back = 0 if loader.persistent_workers else loader.passes - number
    if phase is None or phase.left or back >= len(known) or (loader.persistent_workers and number != loader.passes):
        return None
    passes = loader.passes if loader.persistent_workers else 1
    streams = [one for worker in known[-1 - back] if (one := _stream(worker, passes)) is not None]
    if len(streams) < loader.num_workers:
        return None
    ended = phase.ended if phase.ended is not None else loader.ended[-1].at
    return Crew(main, loader, number, phase.at, ended, streams, _side_by_side(case, main, streams))


def _stream(worker: Process, passes: int) -> Stream | None:
    known = next((one for one in worker.fetching if one.now == FetchState.IDLE), None)
    if known is None:
        return None
    worked = (known.fetches.total + known.handovers.total) / passes
    return Stream(worker, known.samples // passes, worked, known.now_since)


def _side_by_side(case: Case, main: Process, streams: list[Stream]) -> int:
    computing = (on_core([one for stream in streams for one in stream.worker.fetching]) or 0.0) >= ON_PROCESSOR
    host = case.host_of(main)
    return min(len(streams), host.cpus or len(streams)) if computing and host is not None else len(streams)


# What the processes of a loader have of a stream's shards, where a library shares them out.
# Its workers each go through whole shards of their own. LitData and MosaicML Streaming cut shards up where they must;
# webdataset has rules of its own.
DATASETS = "datasets"


class ShardlessCrew(NamedTuple):
    """The workers of a loader's newest pass, and what each has of one stream."""

    main: Process
    loader: Loader
    workers: list[Process]
    idle: list[Process]  # those of them that have not a single shard
    shards: Shards  # as one of those that have some knows them


def without_shards(case: Case, main: Process, loader: Loader) -> ShardlessCrew | None:
    """None: every worker has a shard, or it is not known what it has."""
    known = crews(case, main, loader)
    newest = known[-1] if known else []
    idle = [one for one in newest if (own := _own(one)) and all(each.mine == 0 for each in own)]
    busy = [each for one in newest for each in _own(one) if each.mine]
    if not idle or not busy:
        return None
    return ShardlessCrew(main, loader, newest, idle, busy[0])


def streams_of(case: Case, main: Process, loader: Loader, library: str) -> list[Shards]:
    """What those that load for a loader have of streams of one library, the newest last."""
    known = crews(case, main, loader)
    processes = known[-1] if known else [main] if loader.num_workers == 0 else []
    return [each for one in processes for each in one.shards if each.library == library]


def computes(case: Case, main: Process, loader: Loader) -> bool:
    """Those that load for it are on the processor most of the time."""
    return (on_core(fetching(case, main, loader)) or 0.0) >= ON_PROCESSOR


def _own(worker: Process) -> list[Shards]:
    """Those of which it is known that they are shared out among workers."""
    shared = [one for one in worker.shards if one.library == DATASETS and not one.resampled]
    return [one for one in shared if one.mine is not None and (one.workers or 0) > 1]


# How long the workers of a loader took until they could load their first sample, and what that time went into.
INIT = "worker_init_fn"
MAKING, IMPORTING, UNPACKING, PREPARING = "making the processes", "importing", "unpacking", INIT


class WorkerStart(NamedTuple):
    """Of the workers of a first pass."""

    seconds: float  # from the beginning of the pass until the last of them was ready, as far as it was waited for
    workers: list[Process]
    parts: dict[str, float]  # seconds: making them, of all together; the others, of the slowest worker
    going_on: bool  # one of them is not ready yet
    ready: float  # when the last of them was, waited for or not

    @property
    def most(self) -> str:
        return max(self.parts, key=lambda name: self.parts[name])


def worker_start(case: Case, main: Process, loader: Loader) -> WorkerStart | None:
    """None: there are none, or nothing is recorded of them."""
    began = loader.began
    known = [one for one in case.workers_of(main, loader) if one.started is not None]
    if began is None or not known or loader.num_workers < 1:
        return None
    workers = sorted(known, key=lambda one: one.started or 0.0)[: loader.num_workers]
    if (workers[0].started or 0.0) < began - 1.0 or workers[0].pid not in loader.pids[: loader.num_workers]:
        return None  # recordings of the first have made room for newer ones
    ready = max(_ready(one) for one in workers)
    held_up = loader.starts.mean + loader.first[0] if loader.first else ready - began
    parts = {
        MAKING: max((one.started or began) for one in workers) - began,
        IMPORTING: max(_imported(one) - (one.started or 0.0) for one in workers),
        UNPACKING: max(one.opened - _imported(one) for one in workers),
        PREPARING: max(_ready(one) - one.opened for one in workers),
    }
    going_on = any(_prepares(one) for one in workers)
    return WorkerStart(max(min(ready - began, held_up), 0.0), workers, parts, going_on, ready)


def _imported(worker: Process) -> float:
    """A forked worker imports nothing: it has what its parent had."""
    started = worker.started or worker.opened
    return worker.imported if worker.imported is not None else started


def _ready(worker: Process) -> float:
    going_on = [one.since for one in worker.stages_now if one.name == INIT]
    if going_on:
        return max(worker.last_sign, worker.opened)
    done = worker.stages.get(INIT)
    return worker.opened + (done.total if done is not None else 0.0)


def _prepares(worker: Process) -> bool:
    return any(one.name == INIT for one in worker.stages_now)


# Waits that come in stripes: the workers of a loader run in step, and every so many batches the loop stands still.
TIMES = 3  # as long as those between them, on average: else waits only vary
ALIKE = 0.5  # of the usual long wait, from which on one counts as long
ROUNDS = 4  # fewer may be a coincidence
REGULAR = 0.8  # of the distances between long waits that are just the number of workers


class Stripes(NamedTuple):
    """Every so many batches, one is waited for long and the others are not: seconds, on average."""

    every: int
    long: float
    between: float


def stripes(loader: Loader) -> Stripes | None:
    """None: waits are even, or come in no order, or are too few to tell."""
    every, waits = loader.num_workers, loader.recent_waits
    if every < 2 or len(waits) < ROUNDS * every:
        return None
    # In each round one is long, if there are stripes at all: the middle one of so many is the usual long wait.
    longest = sorted(waits, reverse=True)[: len(waits) // every]
    limit = ALIKE * longest[len(longest) // 2]
    at = [number for number, wait in enumerate(waits) if wait >= limit]
    gaps = [after - before for before, after in pairwise(at)]
    if len(gaps) < ROUNDS - 1 or gaps.count(every) < REGULAR * len(gaps):
        return None
    long = sum(waits[number] for number in at) / len(at)
    between = (sum(waits) - long * len(at)) / max(len(waits) - len(at), 1)
    return Stripes(every, long, between) if long >= TIMES * between else None
