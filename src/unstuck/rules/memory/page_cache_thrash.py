"""Every epoch reads the data set from disk again: it is larger than the memory left to cache it.

## It means
Linux keeps what it has read in memory that is otherwise free, and the second epoch over a data set that fits finds all
of it there. A data set that does not fit pushes its own beginning out of the cache before it is read again, so hardly
anything is ever found, even if only a little room is missing. In a container the cache counts against the container's
memory limit.

## Fix
Make it fit: smaller files (fewer bytes per sample, a better format), a higher memory limit, fewer workers that hold
memory.

```sh
docker run --memory=64g IMAGE
sbatch --mem=64G job.sh
```

Where it can never fit, read it in the order in which a disk is fast: whole shards in sequence with a shuffle buffer,
instead of single files at random, or from a local SSD.

```python
dataset = webdataset.WebDataset(urls, shardshuffle=100).shuffle(1000).decode("rgb")
```

The first epoch always reads from disk: that is healthy, and this rule says nothing about it.

## Check it yourself
```sh
du -sh /path/to/data; free -h                            # "available" is the room for the cache
cat /sys/fs/cgroup/memory.max                            # in a container
cat /proc/PID/io                                         # of a worker, in epoch 2: does read_bytes grow like rchar?
iostat -x 5                                              # is the disk busy in every epoch?
```

## Not this, if
- only the first epoch is slow: the cache is cold, and the next epoch finds the files in it
- reading is slow though little comes from disk: [slow-storage](slow-storage.md)
- loading is slow on the CPU: [heavy-transform](heavy-transform.md)
- rows are read one by one through an index: [hf-indices-mapping](hf-indices-mapping.md)

## How sure
Judged, for each training loader that was iterated more than once, from how many bytes the processes that load its
samples asked for after the first epoch, and how many of these had to come from a disk; from how much an epoch reads
compared with what the page cache held at most; and from how long the loop waits. The kernel counts these bytes for each
process, so they are certain. It speaks when half or more of what is read after the first epoch comes from the disk, the
cache is at its limit and smaller than what an epoch reads, and the loop waits for 30 % of its time.

## Seen in
- https://github.com/yjxiong/action-detection/issues/41: a data set too large for the cache is read at the speed of the
  hard disk
- https://github.com/NVIDIA/DALI/issues/839: fast while ImageNet comes from the cache, slow once memory is full
- https://github.com/NVIDIA/DALI/issues/3473: only the beginning and the end of an epoch are fast, by the cache
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...analysis.loading import waiting
from ...evidence import Host, Memory, Sample
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent, size
from ..rule import rule
from ._room import higher_limit, limit

AGAIN = 0.5  # of what is read after the first epoch: the cache is of little use
MUCH = 64 << 20  # bytes from the disk after the first epoch: less is logs, checkpoints and code
LOOKS = 2  # after the first epoch: what was read between them is certainly read again
FULL = 0.85  # of the memory that the cache may have; the kernel keeps some free

OTHERS = [
    Remedy("Make the files smaller: fewer bytes per sample, or a compressed format."),
    Remedy("If it can never fit, read whole shards in sequence with a shuffle buffer, or read from a local SSD."),
]


class Reads(NamedTuple):
    """What was read after the first epoch, by all processes that load samples for one loader."""

    asked: int
    from_disk: int
    seconds: float


class Part(NamedTuple):
    """The same by one process, and when it was counted."""

    asked: int
    from_disk: int
    since: float
    until: float


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording", "host"))
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.training_loaders:
        host = case.host_of(main)
        reads = _reads(host, main, loader) if host is not None else None
        if host is None or reads is None or not waiting(loader).matters:
            continue
        cached, an_epoch = _cached(host), _an_epoch(loader, reads)
        if cached is None or reads.from_disk < max(MUCH, AGAIN * reads.asked) or an_epoch <= cached:
            continue
        yield case.finding(
            main,
            cause=f"Every epoch reads {size(an_epoch)} from disk again: the page cache has room for {size(cached)}.",
            seen=list(_seen(host, loader, reads)),
            remedy=_room(case, host, an_epoch - cached),
            alternatives=OTHERS,
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _reads(host: Host, main: Process, loader: Loader) -> Reads | None:
    """Counters since the first epoch ended. Workers of a later epoch count from their own beginning."""
    if not loader.ended or loader.passes < 2:
        return None
    first, pids = loader.ended[0].at, set(loader.pids) if loader.num_workers else {main.pid}
    parts = [part for pid in pids if (part := _of_one(host, pid, first)) is not None]
    if not parts:
        return None
    seconds = max(part.until for part in parts) - min(part.since for part in parts)
    return Reads(sum(part.asked for part in parts), sum(part.from_disk for part in parts), seconds)


def _of_one(host: Host, pid: int, first: float) -> Part | None:
    looks = [(sample.at, one) for sample in host.samples for one in sample.processes if one.pid == pid]
    later = [(at, one) for at, one in looks if at > first and one.read is not None and one.from_disk is not None]
    if looks and looks[0][0] > first:  # it was not there before
        later.insert(0, (first, Memory(pid)))
    if len(later) < LOOKS:
        return None
    (since, start), (until, end) = later[0], later[-1]
    return Part((end.read or 0) - (start.read or 0), (end.from_disk or 0) - (start.from_disk or 0), since, until)


def _an_epoch(loader: Loader, reads: Reads) -> float:
    """Bytes: as much as is read in the time that an epoch takes. What is mapped comes from the disk unasked."""
    first, last = loader.ended[0], loader.ended[-1]
    if last.number > first.number:
        took = (last.at - first.at) / (last.number - first.number)
    else:
        took = first.at - (loader.states[0].at if loader.states else 0.0)
    return max(reads.asked, reads.from_disk) / reads.seconds * took if reads.seconds else 0.0


def _cached(host: Host) -> int | None:
    """What the page cache held at most, if it was at its limit then. None: it could have grown."""
    full = [one.cached for one in host.samples if one.cached is not None and _is_full(one)]
    return max(full) if full else None


def _is_full(sample: Sample) -> bool:
    cached = sample.cached or 0
    if sample.limit is not None and sample.used is not None:
        return cached + sample.used >= FULL * sample.limit
    # Of the machine: what is available is what is free and what the cache would give back.
    return cached >= FULL * sample.available


def _seen(host: Host, loader: Loader, reads: Reads) -> Iterator[str]:
    yield (
        f"after the first epoch {size(reads.asked)} were asked for in {duration(reads.seconds)}, and the disk had to "
        f"deliver {size(reads.from_disk)}; {many(loader.passes, 'epoch')} in all"
    )
    last = max(host.samples, key=lambda one: one.cached or 0)
    if last.limit is not None and last.used is not None:
        yield (
            f"of the memory limit of {size(last.limit)}, processes use {size(last.used)} and cached files "
            f"{size(last.cached or 0)}"
        )
    else:
        yield f"the machine has {size(last.total)}, of which {size(last.cached or 0)} hold cached files"
    pressure = max((one.pressure for one in host.samples if one.pressure is not None), default=0.0)
    if pressure >= AGAIN:
        yield f"processes were blocked on a disk for up to {percent(pressure)} of the time"
    loop = waiting(loader)
    yield f"the loop waits for data {percent(loop.share)} of the time, {duration(loop.waited / loop.steps)} per batch"
    yield f"loader: {loader.name}"


def _room(case: Case, host: Host, missing: float) -> Remedy:
    highest = limit(host)
    if highest is None:
        return Remedy(f"Give the cache about {size(missing)} more: more memory, or fewer processes that hold it.")
    return higher_limit(case, host, above=highest + missing)
