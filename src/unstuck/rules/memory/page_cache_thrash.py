"""Every pass reads the data set from the disk again, because it is larger than the memory left to cache it.

## What it looks at
For each training loader that was gone through more than once: how many bytes the processes that load its samples asked
for after the first pass, and how many of these had to come from a disk; how much a pass reads against what the page
cache held at the most; and how long the loop waits.

## Why it happens
Linux keeps what it has read in memory that nobody else needs, and the second pass over a data set that fits finds all
of it there. One that does not fit pushes its own beginning out before it comes round again, so that hardly anything is
ever found, even if only a little is missing. In a container the cache counts against the container's memory limit.

## What to do
Make it fit, or read it so that a disk is quick: smaller files (fewer bytes a sample, a better format), more memory or a
higher limit, fewer workers that hold memory, a faster disk; whole shards in sequence with a shuffle buffer instead of
single files at random. A first pass from the disk is healthy, and is not spoken of.

## How sure it is
Certain of the bytes, which the kernel counts for each process. It speaks when half of what is read after the first pass
or more comes from the disk, the cache is at its limit and smaller than what a pass reads, and the loop waits for 30 %
of its time.
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

AGAIN = 0.5  # of what is read after the first pass: the cache is of little use
MUCH = 64 << 20  # bytes from the disk after the first pass: less is logs, checkpoints and code
LOOKS = 2  # after the first pass: what was read between them is certainly read again
FULL = 0.85  # of the memory that the cache may have; the kernel keeps some free


class Reads(NamedTuple):
    """What was read after the first pass, by everybody who loads samples for one loader."""

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
        cached, a_pass = _cached(host), _a_pass(loader, reads)
        if cached is None or reads.from_disk < max(MUCH, AGAIN * reads.asked) or a_pass <= cached:
            continue
        yield case.finding(
            main,
            cause=f"Every pass over {loader.name} reads its data from the disk again: a pass reads about "
            f"{size(a_pass)}, and the page cache has room for {size(cached)}.",
            seen=list(_seen(host, loader, reads)),
            remedy=_remedy(host, a_pass - cached),
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _reads(host: Host, main: Process, loader: Loader) -> Reads | None:
    """Counters since the first pass ended. Workers of a later pass count from their own beginning."""
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


def _a_pass(loader: Loader, reads: Reads) -> float:
    """Bytes: as much as is read in the time that a pass takes. What is mapped comes from the disk unasked."""
    first, last = loader.ended[0], loader.ended[-1]
    if last.number > first.number:
        took = (last.at - first.at) / (last.number - first.number)
    else:
        took = first.at - (loader.states[0].at if loader.states else 0.0)
    return max(reads.asked, reads.from_disk) / reads.seconds * took if reads.seconds else 0.0


def _cached(host: Host) -> int | None:
    """What the page cache held at the most, if it was at its limit then. None: it could have grown."""
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
        f"after the first pass {size(reads.asked)} were read in {duration(reads.seconds)}, and "
        f"{size(reads.from_disk)} were fetched from the disk for it; there were {many(loader.passes, 'pass')} in all"
    )
    last = max(host.samples, key=lambda one: one.cached or 0)
    if last.limit is not None and last.used is not None:
        yield (
            f"the memory limit is {size(last.limit)}: {size(last.used)} are in use, {size(last.cached or 0)} hold "
            "cached files"
        )
    else:
        yield f"the machine has {size(last.total)}, of which {size(last.cached or 0)} hold cached files"
    pressure = max((one.pressure for one in host.samples if one.pressure is not None), default=0.0)
    if pressure >= AGAIN:
        yield f"somebody waited for a disk up to {percent(pressure)} of the time"
    loop = waiting(loader)
    yield f"the loop waits for data {percent(loop.share)} of the time, {duration(loop.waited / loop.steps)} a batch"


def _remedy(host: Host, missing: float) -> Remedy:
    limits = [one.limit for one in host.samples if one.limit is not None]
    where = f"raise the memory limit of {size(limits[-1])} by that much" if limits else "add memory"
    return Remedy(
        f"About {size(missing)} are missing for the cache: {where}, make the files smaller, or let fewer processes "
        "hold memory. Where it can never fit, read shards from end to end with a shuffle buffer, or use a faster "
        "local disk."
    )
