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
holds a list or dict of 100,000 items or more, and a worker's own memory rose in at least three looks by 64 MiB. The
memory of mapped files and of shared batches is counted apart and plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ...model.evidence import Evidence, Host
from ...model.growing import Climb, climb, looks_at, meets, room
from ...model.phrases import duration, many, size, who
from ...model.questions import host_of, last_memory, loader_name, workers_of
from ...model.recorded import Loader, Process
from ...model.report import Finding, Remedy, Subject, Symptom
from ...model.rule import rule

ITEMS = 100_000  # Python objects: fewer take some megabytes at the most
MUCH = 64 << 20  # bytes of growth in one worker: less is what any worker copies of the interpreter
LOOKS = 3  # two may be a coincidence
SHARED = 0.3  # of that growth which may be memory it allocated itself
STEPPED = 0.8  # of that growth which may come at once: a parent that writes makes it jump, readers make it climb


class Copying(NamedTuple):
    """One worker: what it had alone, and what it had in all."""

    worker: Process
    own: Climb
    private: int


@rule(
    explains=Symptom.WRONG,
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
    own = climb(looks, LOOKS)
    if own is None or own.grown < MUCH:
        return None
    largest = max(after - before for (_, before), (_, after) in pairwise(looks))
    private = [value for at, value in looks_at(host, worker.pid, "private") if own.since <= at <= own.until]
    if largest > STEPPED * own.grown or private[-1] - private[0] > SHARED * own.grown:
        return None
    return Copying(worker, own, private[-1])


def _finding(host: Host, main: Process, loader: Loader, copying: list[Copying], container: str) -> Finding:
    worst = max(copying, key=lambda one: one.own.grown)
    return Finding(
        cause=f"Each worker of {loader_name(loader)} is making a copy of {container}, which holds "
        f"{loader.containers[container]:,} Python objects: reading them writes to their reference counts, and the "
        f"memory that the fork shared is copied. {many(len(copying), 'worker')} grew by {size(worst.own.grown)} each.",
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
            f"{who(one.worker)} had {size(one.own.first)} to itself, then {size(one.own.last)} "
            f"{duration(one.own.until - one.own.since)} later; in all it has {size(one.private)} of private memory, "
            "as before"
        )
    held = last_memory(host, main.pid)
    if held is not None:
        yield (
            f"the main process holds {size(held.private)} of private memory: that is where each worker's copy ends at "
            f"the latest; {size(held.files)} of mapped files and {size(held.shared)} of shared memory play no part"
        )
        yield from _forecast(host, loader, copying, held.private)


def _forecast(host: Host, loader: Loader, copying: list[Copying], most: int) -> Iterator[str]:
    """What is still to come, against what is left."""
    left = room(host)
    still = sum(max(most - one.own.last, 0) for one in copying)
    if left is None:
        return
    if left[0] >= still:
        yield f"at most {size(still)} more are to come, and {left[1]} has {size(left[0])} left"
        return
    rate = sum(one.own.per_second for one in copying)
    steps = loader.batches / max(loader.waits.total + loader.bodies.total, 1e-3)  # a second
    step = meets(left[0], rate / max(steps, 1e-3), loader.batches)
    yield f"at this rate {left[1]} is reached at about step {step:,}: {size(left[0])} are left"


def _remedy(loader: Loader, container: str) -> Remedy:
    name = container.rpartition(".")[2]
    fewer = f" Until then, num_workers={max(loader.num_workers // 2, 1)} halves it." if loader.num_workers > 1 else ""
    return Remedy(
        f"Turn {name} into a few large objects: numbers into a numpy array or torch tensor, strings into one array of "
        f"bytes with offsets (np.frombuffer(b''.join(texts), dtype=np.uint8) and np.cumsum of the lengths), or an "
        f"Arrow table.{fewer}"
    )
