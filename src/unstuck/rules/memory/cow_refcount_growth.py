"""Forked workers copy a large Python list or dict bit by bit, merely by reading it.

## It means
After a fork, parent and worker share all memory until one of them writes. Every Python object carries a count of its
references, and merely reading an object writes that count, so the kernel copies the page it lies on. A worker that
reads through a list of a million strings ends up with a copy of it, and so does every other worker. The memory grows
through the epoch and levels off where each worker has its copy, if it is not killed before that. Often it is reported
as a memory leak of the DataLoader (pytorch#13246).

## Fix
Hold such data in few large objects instead of many small ones: numpy arrays or torch tensors, an Arrow table, a mapped
file. Anything that can be pickled fits into one array of bytes with offsets:

```python
self.captions = list_of_strings_or_dicts  # before: a million Python objects

rows = [pickle.dumps(row) for row in list_of_strings_or_dicts]  # after: two numpy arrays
self.data = np.frombuffer(b"".join(rows), dtype=np.uint8)
self.ends = np.cumsum([0, *map(len, rows)])


def __getitem__(self, index):
    row = pickle.loads(self.data[self.ends[index] : self.ends[index + 1]])
```

A dict needs its keys in a sorted array as well: `np.searchsorted` finds the position of one.

Until then use fewer workers. `persistent_workers=False` (torch's default) gives the memory back at the end of each
epoch.

## Check it yourself
```sh
# Pss counts shared pages by their share: the sum over all workers climbs, though nothing is cached.
for pid in $(pgrep -f train.py); do grep -H '^Pss:' /proc/$pid/smaps_rollup; done
```

With `num_workers=0` the growth is gone.

## Not this, if
- the main process grows, and the workers do not: [graph-accumulation](graph-accumulation.md)
- the worker allocates what it holds, a cache for instance: [worker-oom-killed](worker-oom-killed.md) names the growth
- the memory is that of mapped files (RssFile in /proc/PID/status): the kernel drops it when it needs room
- the memory jumps at once: that is a main process that writes to its own memory, a model's weights for instance

## How sure
Judged from memory that is private to each worker, less what it has allocated since the fork: what is left are shared
pages that were copied, and they climb. Then from how the workers were started, the memory of the main process, and how
many objects the dataset's lists and dicts hold.
It speaks when the workers were forked, the dataset holds a list or dict of 100,000 items or more, and a worker's own
memory rose step by step by 64 MiB. The memory of mapped files and of shared batches is counted apart and plays no
part. Where the limit was reached, the kill is reported as what it led to. What is still to come is estimated only while
a run goes on and its copies have not levelled off.

## Seen in
- https://github.com/pytorch/pytorch/issues/13246: the thread about it, with measurements and ways out
- https://github.com/referit3d/referit3d/issues/5: a large dict of scans, 40 GB of memory in one epoch
- https://github.com/torchgeo/torchgeo/issues/2448: memory grows with workers and nodes until the process crashes
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.memory import COMFORTABLE, Climb, Killed, climb, copied, limit_of, looks_at, meets, oom_killed, room
from ...evidence import Host
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, size, who
from ..rule import rule

ITEMS = 100_000  # Python objects: fewer take some megabytes at most
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
            workers = [_copying(host, worker) for worker in case.workers_of(main, loader)]
            copying = [worker for worker in workers if worker is not None]
            if copying:
                yield _finding(case, host, main, loader, copying, container)


def _container(loader: Loader) -> str | None:
    """The largest list or dict of the dataset, if it is large enough to matter."""
    name = max(loader.containers, key=lambda name: loader.containers[name], default=None)
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
    return case.finding(
        worst.worker,
        cause=_cause(main, container, loader.containers[container], worst, killed),
        seen=list(_seen(case, host, main, loader, copying, killed)),
        remedy=_remedy(container),
        alternatives=list(_until_then(host, main, loader, copying, killed)),
        onset_s=worst.own.since,
        where=loader.created,
        subject=Subject("loader", loader.name),
        symptom=Symptom.LEAKING.value,
    )


def _cause(main: Process, container: str, items: int, worst: Copying, killed: Killed | None) -> str:
    if killed is not None:
        until = f"until {who(killed.process)} was OOM-killed"
        return f"Workers copied {container} ({items:,} Python objects) by reading it, {until}."
    verb, far = ("are copying", " so far") if main.alive else ("copied", "")
    grown = f"{size(worst.own.grown)} in one worker{far}"
    return f"Workers {verb} {container} ({items:,} Python objects) by reading it: {grown}."


def _seen(
    case: Case, host: Host, main: Process, loader: Loader, copying: list[Copying], killed: Killed | None
) -> Iterator[str]:
    for one in copying[:2]:
        yield (
            f"{who(one.worker)}: {size(one.own.last)} of the memory it shared at the fork were private copies after "
            f"{duration(one.own.until - one.own.since)}"
        )
    if killed is not None:
        yield f"{who(killed.process)} was killed (SIGKILL) after {duration(killed.at)}"
        yield from (count.told() for count in killed.counts)
    yield "reading a Python object writes its reference count, and the kernel copies the page it lies on"
    most = max((value for _, value in looks_at(host, main.pid, "anonymous")), default=0)
    if not most:
        return
    yield f"each worker's copy can grow to {size(most)}: what the main process holds, without mapped files"
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
        yield f"at most {size(still)} more are to come, which fit: {size(left[0])} are left of {left[1]}"
        return
    rate = sum(one.own.per_second for one in copying) * each
    steps = loader.batches / max(loader.waits.total + loader.bodies.total, 1e-3)  # a second
    step = meets(left[0], rate / max(steps, 1e-3), loader.batches)
    yield (
        f"at this rate {left[1]} is reached at about step {step:,}, if it does not level off before: "
        f"{size(left[0])} are left"
    )


def _remedy(container: str) -> Remedy:
    name = container.rpartition(".")[2]
    return Remedy(
        f"Pack {name} into a few large arrays: numbers into numpy or torch, anything else into bytes with offsets.",
        code=[
            f"rows = [pickle.dumps(row) for row in {name}]    # of a list; a dict needs its keys as well",
            'self.data = np.frombuffer(b"".join(rows), dtype=np.uint8)',
            "self.ends = np.cumsum([0, *map(len, rows)])",
            "row = pickle.loads(self.data[self.ends[index] : self.ends[index + 1]])    # in __getitem__",
        ],
    )


def _until_then(
    host: Host, main: Process, loader: Loader, copying: list[Copying], killed: Killed | None
) -> Iterator[Remedy]:
    workers, half = loader.num_workers, max(loader.num_workers // 2, 1)
    if workers > 1 and (killed is None or _fits(host, main, loader, copying, half)):
        fewer = settings(loader, num_workers=half)
        yield Remedy(f"Use {fewer} until then: {many(half, 'copy')} instead of {workers}.")
    if loader.persistent_workers:
        freed = settings(loader, persistent_workers=False)
        yield Remedy(f"Use {freed} until then: the copies are freed at the end of each epoch.")


def _fits(host: Host, main: Process, loader: Loader, copying: list[Copying], workers: int) -> bool:
    """Whether whole copies in so many workers stay below the limit, with all else that was in use."""
    looks = [one for one in host.samples if any(held.pid == main.pid for held in one.processes)]
    limit, used = max((limit_of(one) for one in looks), key=lambda one: one[1], default=(0, 0))
    whole = max((value for _, value in looks_at(host, main.pid, "anonymous")), default=0)
    else_used = used - loader.num_workers * min(one.own.last for one in copying)
    return else_used + workers * whole <= COMFORTABLE * limit
