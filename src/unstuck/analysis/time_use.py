"""Where the time of a run goes, and whether data is its bottleneck."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from ..evidence.basics import Place
from ..evidence.live import Frame, Sampled, Seen, Stack
from ..report import Spent
from .case import Case, once
from .loading import Spread, spread
from .stacks import (
    COLLECTIVE,
    ENDING,
    FETCHING,
    IDLE,
    LOADER_FILES,
    LOGGING,
    OWN,
    STARTING,
    TRAINING,
    WAITING,
    WORKER_FILES,
    Known,
    doing,
    fetch_of,
    place,
    user_frame,
)
from .standstill import idles, main_stack, same_place, waits_in

# Where the time goes, by samples of the stacks: what each main thread and the workers were met at, and how often.
COMPUTING, COLLATING, HANDING, RESTING = "computing", "collating", "sending batches", "idle"
TRAINS = (COMPUTING, WAITING, FETCHING, COLLECTIVE)  # a child that does one of these is a rank of its own
SMALL = 0.01  # of the time: rows below that are left out
LOGGERS = (
    Known(LOGGING, ("-packages/tqdm/",), ("display", "refresh", "update", "set_postfix", "set_description", "write")),
    Known(LOGGING, ("-packages/loguru/", "-packages/rich/console.py")),
)


class Time(NamedTuple):
    """Seconds of one kind, and the line of the user's that most of them were spent at."""

    what: str
    where: Place | None
    seconds: float


@once
def spending(case: Case) -> list[Spent]:
    """Of every main process and, taken together, of its workers; the largest shares first."""
    found: list[Spent] = []
    for main in spenders(case):
        for role, times in (("main", of_main(case, main)), ("workers", of_workers(case, main))):
            total = _whole(case, main) if role == "main" else worked(case, main)
            found += [
                Spent(main.rank, None, role, one.what, one.where, round(one.seconds / total, 3), round(one.seconds, 2))
                for one in times
                if one.seconds >= SMALL * total
            ]
    return sorted(found, key=lambda one: -one.share)


def spenders(case: Case) -> list[Seen]:
    """Main processes that were sampled, and other processes that train as they do."""
    sampled = {one.pid for one in case.samples or ()}
    seen = [one for one in case.processes or () if one.pid in sampled]
    trains = {one.pid for one in seen if any(time.what in TRAINS for time in of_main(case, one))}
    return [one for one in seen if one.role == "main" or (one.role == "child" and one.pid in trains)]


def of_main(case: Case, main: Seen) -> list[Time]:
    """What its main thread spent its time on, by kind; its own code by line."""
    blocked, at = _blocked(case, main)
    return _added(
        (
            blocked if blocked and kind_of(one.stack) == OWN and line_of(one.stack) == at else kind_of(one.stack),
            line_of(one.stack),
            one.seconds,
        )
        for one in _main_threads(case, {main.pid})
    )


def _blocked(case: Case, main: Seen) -> tuple[str, Place | None]:
    """What its main thread waits in, if that did nothing between the looks, and the line it waits at."""
    stack, task = main_stack(case, main.pid), main.main_task
    if stack is None or not idles(task, main.looked) or not same_place(stack):
        return "", None
    return waits_in(task), line_of(stack)


def of_workers(case: Case, main: Seen) -> list[Time]:
    """What all of its workers together spent theirs on: idle, or at which line of a sample."""
    return _added(_of_worker(one.stack, one.seconds) for one in _samples_of_workers(case, main))


def worked(case: Case, main: Seen) -> float:
    """Seconds that its workers were looked at, taken together."""
    return sum(one.seconds for one in _samples_of_workers(case, main) if one.tid == one.pid)


def worker_pids(case: Case, main: Seen) -> set[int]:
    """Workers of a process, also those that came while it was sampled."""
    parents = {one.pid: one.parent for one in case.processes or ()}
    parents |= {one.pid: one.parent for one in case.samples or () if one.parent}
    found = {one.pid for one in case.samples or () if one.tid == one.pid and _works(one.stack)}
    return {pid for pid in found if main.pid in _above(pid, parents)}


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid in parents and parents[pid] != pid:
        pid = parents[pid]
        yield pid


def kind_of(stack: Stack) -> str:
    """As `doing`, for counting: all that a loader's `__next__` does is for data, whatever is logged is logging."""
    what = doing(stack)
    if fetch_of(stack) is not None:
        return FETCHING
    if any(_asks(one) for one in stack.calls) and what not in (ENDING, STARTING):
        return WAITING
    if what in (OWN, TRAINING) and _logs(stack.calls):
        return LOGGING
    return COMPUTING if what == TRAINING else what


def line_of(stack: Stack) -> Place | None:
    return place(user_frame(stack.calls))


def asked_at(case: Case, main: Seen) -> Place | None:
    """The line of the user's that asks a loader for batches, where that took most of the time."""
    found: dict[Place | None, float] = {}
    for one in _main_threads(case, {main.pid}):
        calls = one.stack.calls
        asks = next((number for number, call in enumerate(calls) if _asks(call)), None)
        if asks is not None:
            where = place(user_frame(calls[asks:]))
            found[where] = found.get(where, 0.0) + one.seconds
    return max(found, key=lambda where: found[where], default=None)


def _asks(frame: Frame) -> bool:
    return frame.name == "__next__" and _in(frame, LOADER_FILES)


def _of_worker(stack: Stack, seconds: float) -> tuple[str, Place | None, float]:
    if not stack.is_main:  # the thread that sends batches
        return HANDING, None, seconds
    inside = fetch_of(stack)
    if inside is None:
        what = {OWN: HANDING, IDLE: RESTING}.get(doing(stack), doing(stack))
        return what, None, seconds
    if any(_in(one, ("torch/utils/data/_utils/collate.py",)) for one in inside[1]) and not user_frame(inside[1]):
        return COLLATING, None, seconds
    return FETCHING, place(user_frame(inside[1]) or next(iter(inside[1]), None)), seconds


def _samples_of_workers(case: Case, main: Seen) -> list[Sampled]:
    """Their main threads, and their feeders where these do not wait."""
    pids = worker_pids(case, main)
    feeders = [
        one
        for one in case.samples or ()
        if one.pid in pids and any(call.name == "_feed" for call in one.frames) and one.frames[0].name != "wait"
    ]
    return _main_threads(case, pids) + feeders


def _main_threads(case: Case, pids: set[int]) -> list[Sampled]:
    return [one for one in case.samples or () if one.pid in pids and one.tid == one.pid]


def _whole(case: Case, main: Seen) -> float:
    return sum(one.seconds for one in _main_threads(case, {main.pid}))


def _added(times: Iterable[tuple[str, Place | None, float]]) -> list[Time]:
    """Summed up by kind, with the line that has most of it; what is only code of somebody's, line by line."""
    by_line: dict[tuple[str, Place | None], float] = {}
    for what, where, seconds in times:
        by_line[what, where] = by_line.get((what, where), 0.0) + seconds
    found: dict[tuple[str, Place | None], Time] = {}
    for (what, where), seconds in sorted(by_line.items(), key=lambda one: -one[1]):
        key = (what, where if what in (OWN, FETCHING) else None)
        first = found.get(key, Time(what, where, 0.0))
        found[key] = first._replace(seconds=first.seconds + seconds)
    return sorted(found.values(), key=lambda one: -one.seconds)


def _works(stack: Stack) -> bool:
    return any(one.name == "_worker_loop" and _in(one, WORKER_FILES) for one in stack.calls)


def _logs(calls: list[Frame]) -> bool:
    """By Python's own logging, whoever's handler it calls, or by what writes lines and bars on the terminal."""
    return any("/lib/python3" in one.file and "/logging/" in one.file for one in calls) or any(
        known.matches(one) for one in calls for known in LOGGERS
    )


def _in(frame: Frame, files: tuple[str, ...]) -> bool:
    return any(part in frame.file for part in files)


# Loops over a DataLoader, as samples show them: how long each waits for data, and what loading that data goes into.
INDICES = "possibly_batched_index"


class Loop(NamedTuple):
    """One main process that asks a loader for batches."""

    main: Seen
    at: Place | None
    times: list[Time]
    workers: list[Seen]  # those that were there before the samples were taken
    started: int  # workers that came while they were
    loading: list[Time]  # in all workers together, or in itself
    loaded: float  # seconds that the workers were looked at, or that it loaded itself
    gets_on: bool  # batches come, and something is done with them

    @property
    def alone(self) -> bool:
        """It has no workers and loads every batch itself."""
        return self.seconds(FETCHING) > self.seconds(WAITING)

    @property
    def looked(self) -> float:
        return self.seconds()

    @property
    def waiting(self) -> float:
        return self.seconds(WAITING, FETCHING) / self.looked

    @property
    def idle(self) -> float:
        return self._of_loading(RESTING)

    @property
    def handing(self) -> float:
        return self._of_loading(HANDING)

    @property
    def line(self) -> Time | None:
        """Where most of a sample's time goes."""
        return next((one for one in self.loading if one.what == FETCHING and one.where is not None), None)

    @property
    def on_processor(self) -> float | None:
        """Of the time in which data is loaded, by the kernel's count between two looks."""
        loads = [self.main] if self.alone else self.workers
        share = self.waiting if self.alone else 1 - self.idle
        looked = sum(one.looked for one in loads) * share
        return min(sum(one.cpu for one in loads) / looked, 1.0) if looked else None

    @property
    def spread(self) -> Spread | None:
        """What loading goes into, by the kernel's count between two looks."""
        share, loads = self.on_processor, [self.main] if self.alone else self.workers
        ran, queued = (sum(getattr(one.main_task, name) for one in loads) for name in ("cpu", "queued"))
        return None if share is None else spread(share, queued / ran if ran else None)

    @property
    def needed(self) -> int:
        """Workers that would load as fast as the rest of the loop goes, were there processors for all of them."""
        rest = max(1 - self.waiting, 0.01)
        return ceil((1 if self.alone else len(self.workers)) * (1 - self.idle) / rest)

    def seconds(self, *kinds: str) -> float:
        return sum(one.seconds for one in self.times if not kinds or one.what in kinds)

    def _of_loading(self, kind: str) -> float:
        return sum(one.seconds for one in self.loading if one.what == kind) / self.loaded if self.loaded else 0.0


def loops(case: Case) -> Iterator[Loop]:
    for main in spenders(case):
        pids, times = worker_pids(case, main), of_main(case, main)
        workers = [one for one in case.processes or () if one.pid in pids]
        loading, loaded = of_workers(case, main), worked(case, main)
        if not pids:
            loading = [one for one in times if one.what == FETCHING]
            loaded = sum(one.seconds for one in loading)
        if any(one.what in (WAITING, FETCHING) for one in times):
            at, started = asked_at(case, main), len(pids) - len(workers)
            yield Loop(main, at, times, workers, started, loading, loaded, _gets_on(case, times, {main.pid, *pids}))


def _gets_on(case: Case, times: list[Time], pids: set[int]) -> bool:
    """It was seen to compute; or in code of its own, and the second look found another batch than the first.

    A resumed run that only passes over batches does neither.
    """
    kinds = {one.what for one in times}
    return COMPUTING in kinds or (OWN in kinds and _other_batch(case, pids))


def _other_batch(case: Case, pids: set[int]) -> bool:
    """Between two looks, one of them went from one batch to another."""
    pairs = [(_batch(one.frames), _batch(one.before)) for one in case.stacks or () if one.pid in pids]
    return any(now and then and now != then for now, then in pairs)


def _batch(frames: list[Frame]) -> str | None:
    """The indices that torch's fetcher was given."""
    return next((one.locals[INDICES] for one in frames if INDICES in one.locals), None)
