"""Forked workers copy a large Python list or dict bit by bit, merely by reading it.

## What it looks at
Memory that is private to each worker, which no other process shares, less what it has allocated since the fork: what is
left are shared pages that were copied, and they climb. Then how the workers
were started, the memory of the main process, and how many objects the dataset's lists and dicts hold.

## Why it happens
After a fork, parent and worker share all memory until one of them writes. Every Python object carries a count of its
references, and whoever only looks at an object writes to that count: the page it lies on is copied. A worker that reads
through a list of a million strings ends up with a copy of it, and so does the next one.

## What to do
Hold such data in few large objects instead of many small ones: numpy arrays or torch tensors (strings as one array of
bytes with offsets), an Arrow table, a mapped file. Until then, fewer workers; `persistent_workers=False` gives the
memory back at the end of each pass.

## How sure it is
Sure: memory that a process allocates itself is not counted. It speaks when the workers were forked, the dataset
holds a list or dict of 100,000 items or more, and a worker's own memory rose step by step by 64 MiB. A jump at once is
left alone: that is what a main process makes which writes to memory of its own, a model's weights for instance. The
memory of mapped files and of shared batches is counted apart and plays no part. Where the limit was reached, the kill
is told as what it led to; what is still to come is told only while a run goes on and its copies have not levelled off.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ...analysis.case import SIGKILL, Case
from ...analysis.memory import COMFORTABLE, Climb, Killed, climb, copied, limit_of, looks_at, meets, oom_killed, room
from ...evidence import Host
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, ending, many, size, who
from ..rule import rule

ITEMS = 100_000  # Python objects: fewer take some megabytes at the most
MUCH = 64 << 20  # bytes of growth in one worker: less is what any worker copies of the interpreter
LOOKS = 3  # two may be a coincidence
LEVEL = 0.95  # of the highest value: from there on it has levelled off
LASTS = 0.2  # of the time it took to get there, for which it stays: a steady climb has a twentieth left
STEPPED = 0.8  # of that growth which may come at once: a parent that writes makes it jump, readers make it climb


class Copying(NamedTuple):
    """One worker: how its copies grew, and whether that has come to an end."""

    worker: Process
    own: Climb
    levelled: bool


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("recording", "host"),
    outranks=("worker-oom-killed", "container-oom-killed", "main-oom-killed"),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        host = case.host_of(main)
        for loader in main.loaders:
            container = _container(loader)
            if host is None or container is None or loader.context not in (None, "fork"):
                continue
            workers = [_copying(host, one) for one in case.workers_of(main, loader)]
            copying = [one for one in workers if one is not None]
            if copying:
                yield _finding(case, host, main, loader, copying, container)


def _container(loader: Loader) -> str | None:
    """The largest list or dict of the dataset, if it is large enough to matter."""
    name = max(loader.containers, key=lambda one: loader.containers[one], default=None)
    return name if name is not None and loader.containers[name] >= ITEMS else None


def _copying(host: Host, worker: Process) -> Copying | None:
    if worker.threads_at_fork is None:
        return None
    looks = [(worker.opened, 0), *copied(host, worker)]  # a process that was just forked shares everything
    rising = _rising(looks)
    own = climb(rising, LOOKS)
    if own is None or own.grown < MUCH:
        return None
    largest = max(after - before for (_, before), (_, after) in pairwise(rising))
    return Copying(worker, own, len(rising) < len(looks)) if largest <= STEPPED * own.grown else None


def _rising(looks: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Up to where it levels off, if it does: what climbs on is that high only in the end."""
    top = max(value for _, value in looks)
    until = next(number for number, (_, value) in enumerate(looks) if value >= LEVEL * top)
    took, since = looks[until][0] - looks[0][0], looks[-1][0] - looks[until][0]
    return looks[: until + 1] if since >= LASTS * took else looks


def _finding(case: Case, host: Host, main: Process, loader: Loader, copying: list[Copying], container: str) -> Finding:
    worst = max(copying, key=lambda one: one.own.grown)
    killed = oom_killed(case, [main, *case.workers_of(main, loader)])
    until = f", until the kernel's OOM killer ended {who(killed.process)}" if killed is not None else ""
    return case.finding(
        worst.worker,
        cause=f"Workers copied {container} of {loader.name} by reading it: {loader.containers[container]:,} "
        f"Python objects, {size(worst.own.grown)} in one worker{until or ' so far' * main.alive}.",
        seen=list(_seen(case, host, main, loader, copying, killed)),
        remedy=_remedy(host, main, loader, copying, container, killed),
        onset_s=worst.own.since,
        where=loader.created,
        subject=Subject("loader", loader.name),
    )


def _seen(
    case: Case, host: Host, main: Process, loader: Loader, copying: list[Copying], killed: Killed | None
) -> Iterator[str]:
    for one in copying[:2]:
        yield (
            f"{who(one.worker)} shared all its memory when it was forked; {duration(one.own.until - one.own.since)} "
            f"later {size(one.own.last)} of that were private copies, not counting what it allocated itself"
        )
    yield "reading a Python object writes to its count of references: the page it lies on is copied"
    if killed is not None:
        yield f"{who(killed.process)} {ending(SIGKILL)} after {duration(killed.at)}"
        yield from (one.told() for one in killed.counts)
    most = max((value for _, value in looks_at(host, main.pid, "anonymous")), default=0)
    if not most:
        return
    yield (
        f"the main process holds {size(most)}, mapped files and shared memory not counted: that is where each worker's "
        f"copy ends at the latest"
    )
    if killed is not None:
        return
    if all(one.levelled for one in copying):
        yield f"it has levelled off, at {size(copying[0].own.last)} for each of {many(loader.num_workers, 'worker')}"
    elif not case.ended_well(main):
        yield from _forecast(host, loader, copying, most)


def _forecast(host: Host, loader: Loader, copying: list[Copying], most: int) -> Iterator[str]:
    """What is still to come, against what is left."""
    left = room(host)
    each = loader.num_workers / len(copying)  # not all of them were looked at
    still = sum(max(most - one.own.last, 0) for one in copying) * each
    if left is None:
        return
    if left[0] >= still:
        yield f"at most {size(still)} more are to come, and {left[1]} has {size(left[0])} left"
        return
    rate = sum(one.own.per_second for one in copying) * each
    steps = loader.batches / max(loader.waits.total + loader.bodies.total, 1e-3)  # a second
    step = meets(left[0], rate / max(steps, 1e-3), loader.batches)
    yield (
        f"at this rate {left[1]} is reached at about step {step:,}, if it does not level off before: "
        f"{size(left[0])} are left"
    )


def _remedy(
    host: Host, main: Process, loader: Loader, copying: list[Copying], container: str, killed: Killed | None
) -> Remedy:
    name, half, workers = container.rpartition(".")[2], max(loader.num_workers // 2, 1), loader.num_workers
    fewer = f" Until then, {settings(loader, num_workers=half)} makes {many(half, 'copy')} instead of {workers}."
    if workers < 2 or (killed is not None and not _fits(host, main, loader, copying, half)):
        fewer = ""
    return Remedy(
        f"Turn {name} into a few large objects: numbers into a numpy array or torch tensor, strings into one array of "
        f"bytes with offsets (np.frombuffer(b''.join(texts), dtype=np.uint8) and np.cumsum of the lengths), or an "
        f"Arrow table.{fewer}"
    )


def _fits(host: Host, main: Process, loader: Loader, copying: list[Copying], workers: int) -> bool:
    """Whether whole copies in so many workers stay below the limit, with all else that was in use."""
    looks = [one for one in host.samples if any(held.pid == main.pid for held in one.processes)]
    limit, used = max((limit_of(one) for one in looks), key=lambda one: one[1], default=(0, 0))
    whole = max((value for _, value in looks_at(host, main.pid, "anonymous")), default=0)
    else_used = used - loader.num_workers * min(one.own.last for one in copying)
    return else_used + workers * whole <= COMFORTABLE * limit
