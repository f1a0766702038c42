"""Forked workers copy a large Python list or dict bit by bit, merely by reading it.

## What it looks at
Memory that belongs to each worker alone, which no other process shares, against what it has in all: the first climbs
while the second stands still, so that nothing new is allocated and shared pages are being copied. Then how the workers
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
Sure: memory that a process allocates itself raises both numbers. It speaks when the workers were forked, the dataset
holds a list or dict of 100,000 items or more, and a worker's own memory rose step by step by 64 MiB. A jump at once is
left alone: that is what a main process makes which writes to memory of its own, a model's weights for instance. The
memory of mapped files and of shared batches is counted apart and plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ...model.evidence import Evidence, Host
from ...model.growing import Climb, climb, looks_at, meets, room
from ...model.phrases import duration, many, size, who
from ...model.questions import host_of, loader_name, workers_of
from ...model.recorded import Loader, Process
from ...model.report import Certainty, Finding, Remedy, Subject, Symptom
from ...model.rule import rule
from ...model.speaking import settings

ITEMS = 100_000  # Python objects: fewer take some megabytes at the most
MUCH = 64 << 20  # bytes of growth in one worker: less is what any worker copies of the interpreter
LOOKS = 3  # two may be a coincidence
SHARED = 0.3  # of that growth which may be memory it allocated itself
LEVEL = 0.95  # of the highest value: from there on it has levelled off
STEPPED = 0.8  # of that growth which may come at once: a parent that writes makes it jump, readers make it climb


class Copying(NamedTuple):
    """One worker: how what it has alone rose, whether that has come to an end, and what it has in all."""

    worker: Process
    own: Climb
    levelled: bool
    private: int


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("recording", "host"),
    outranks=("worker-oom-killed", "container-oom-killed", "main-oom-killed"),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    for main in evidence.mains():
        host = host_of(evidence, main)
        for loader in main.loaders:
            container = _container(loader)
            if host is None or container is None or loader.context not in (None, "fork"):
                continue
            workers = [_copying(host, one) for one in workers_of(evidence, main, loader)]
            copying = [one for one in workers if one is not None]
            if copying:
                yield _finding(host, main, loader, copying, container)


def _container(loader: Loader) -> str | None:
    """The largest list or dict of the dataset, if it is large enough to matter."""
    name = max(loader.containers, key=lambda one: loader.containers[one], default=None)
    return name if name is not None and loader.containers[name] >= ITEMS else None


def _copying(host: Host, worker: Process) -> Copying | None:
    if worker.threads_at_fork is None:
        return None
    looks = looks_at(host, worker.pid, "own")
    rising = _rising([(worker.opened, 0), *looks])  # a process that was just forked shares everything
    own = climb(rising, LOOKS)
    if own is None or own.grown < MUCH:
        return None
    largest = max(after - before for (_, before), (_, after) in pairwise(rising))
    private = [value for _, value in looks_at(host, worker.pid, "private")]
    if largest > STEPPED * own.grown or private[-1] - private[0] > SHARED * own.grown:
        return None
    return Copying(worker, own, len(rising) <= len(looks), private[-1])


def _rising(looks: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Up to where it levels off, if it does."""
    top = max(value for _, value in looks)
    return looks[: next(number for number, (_, value) in enumerate(looks) if value >= LEVEL * top) + 1]


def _finding(host: Host, main: Process, loader: Loader, copying: list[Copying], container: str) -> Finding:
    worst = max(copying, key=lambda one: one.own.grown)
    return Finding(
        cause=f"Each worker of {loader_name(loader)} is making a copy of {container}, which holds "
        f"{loader.containers[container]:,} Python objects: reading them writes to their reference counts, and the "
        f"memory that the fork shared is copied, {size(worst.own.grown)} in one worker so far.",
        seen=list(_seen(host, main, loader, copying)),
        remedy=_remedy(loader, container),
        node=main.node,
        rank=main.rank,
        worker=worst.worker.worker,
        pid=worst.worker.pid,
        onset_s=worst.own.since,
        where=loader.created,
        subject=Subject("loader", loader_name(loader)),
    )


def _seen(host: Host, main: Process, loader: Loader, copying: list[Copying]) -> Iterator[str]:
    for one in copying[:2]:
        yield (
            f"{who(one.worker)} shared all its memory when it was forked; {size(one.own.last)} were its own "
            f"{duration(one.own.until - one.own.since)} later, while its private memory stayed at {size(one.private)}"
        )
    held = [one for sample in host.samples for one in sample.processes if one.pid == main.pid]
    if not held:
        return
    most = max(held, key=lambda one: one.private)
    yield (
        f"the main process holds {size(most.private)} of private memory: that is where each worker's copy ends at the "
        f"latest; {size(most.files)} of mapped files and {size(most.shared)} of shared memory play no part"
    )
    yield from _forecast(host, loader, copying, most.private)


def _forecast(host: Host, loader: Loader, copying: list[Copying], most: int) -> Iterator[str]:
    """What is still to come, against what is left."""
    left = room(host)
    if all(one.levelled for one in copying):
        yield f"it has levelled off, at {size(copying[0].own.last)} for each of {many(loader.num_workers, 'worker')}"
        return
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


def _remedy(loader: Loader, container: str) -> Remedy:
    name = container.rpartition(".")[2]
    half = settings(loader, num_workers=max(loader.num_workers // 2, 1))
    fewer = f" Until then, {half} halves it." if loader.num_workers > 1 else ""
    return Remedy(
        f"Turn {name} into a few large objects: numbers into a numpy array or torch tensor, strings into one array of "
        f"bytes with offsets (np.frombuffer(b''.join(texts), dtype=np.uint8) and np.cumsum of the lengths), or an "
        f"Arrow table.{fewer}"
    )
