"""Shared memory is full, so workers cannot hand over their batches.

## What it looks at
Exceptions of workers and main processes that come from allocating shared memory and carry the kernel's "no space left",
with the size and free space of /dev/shm at that very moment; and workers that were killed by SIGBUS while /dev/shm was
full, or while they wrote a batch to it that may not have fitted: older versions of torch learn so that it is full.

## Why it happens
Every tensor that crosses from a worker to the main process lies in /dev/shm. Docker gives a container 64 MiB of it
unless told otherwise. What is needed at once is about num_workers x prefetch_factor batches, plus those in use.

## What to do
Enlarge it: `docker run --shm-size=8g` or `--ipc=host`, in Kubernetes an emptyDir of medium Memory on /dev/shm, on a
machine of your own a remount. Or need less: fewer workers, prefetch_factor=1, smaller batches or smaller types.
Switching torch to the `file_system` sharing strategy does not help: it uses the same /dev/shm.

## How sure it is
Certain if the kernel refused the space, or /dev/shm was seen full: a batch alone may be larger than all of it, so free
space at the crash is shown, but not required to be zero. Likely where a worker was killed by SIGBUS in torch's own
sharing code and the batches that may wait are larger than /dev/shm, but nobody looked at the full moment.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case, Owner
from ...analysis.failures import Death, worker_deaths
from ...analysis.shared_memory import is_refused, seen_full, size_of, too_small_for
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, line, many, said, size, who
from ..rule import rule

DOCKER_DEFAULT = 64 << 20


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    refused = [(one, process) for process in case.recording or () for one in process.failures if is_refused(one)]
    for failure, process in sorted(refused, key=lambda one: one[0].at)[:1]:
        seen = [said(failure), *_space(failure.shm_size, failure.shm_free)]
        yield _finding(case, process, failure.at, seen, failure.shm_size)
    if not refused:
        yield from _bus_errors(case)


def _bus_errors(case: Case) -> Iterator[Finding]:
    """The first worker that the kernel ended for writing where no memory was left."""
    for death in worker_deaths(case) if case.exits is not None else ():
        full, too_small = seen_full(case, death), too_small_for(case, death)
        if full is None and not too_small:
            continue
        space = _space(*full) if full is not None else too_small
        told = [f"worker {death.worker.worker} was killed (SIGBUS) after {duration(death.seen.at)}", *_wrote(death)]
        found = _finding(
            case,
            death.worker,
            death.seen.at,
            [*told, *space],
            full[0] if full is not None else size_of(case, death),
        )
        yield msgspec.structs.replace(found, certainty="" if full is not None else Certainty.LIKELY.value)
        return


def _wrote(death: Death) -> Iterator[str]:
    if death.worker.crash:
        place = death.worker.crash[-1]
        yield f"it was writing a batch to shared memory, at {line(place)} in {place.function}"


def _space(total: int | None, free: int | None) -> Iterator[str]:
    if total is not None and free is not None:
        yield f"/dev/shm has {size(total)}, of which {size(free)} were free at that moment"
        if total <= DOCKER_DEFAULT:
            yield "64 MiB or less is what Docker gives a container that does not ask for more"


def _finding(case: Case, process: Process, at: float, seen: list[str], total: int | None) -> Finding:
    owner = case.owner_of(process.node, process.pid)
    return case.finding(
        process,
        cause=f"Shared memory is full: {who(process)} could not hand over a batch through /dev/shm"
        + (f" of {size(total)}." if total else "."),
        seen=seen,
        remedy=_remedy(owner, total),
        onset_s=at,
        where=owner.loader.created if owner else None,
        subject=Subject("filesystem", "/dev/shm"),
    )


def _remedy(owner: Owner | None, total: int | None) -> Remedy:
    wanted = max((total or 0) * 16, 8 << 30) >> 30
    text = f"Give the container more shared memory ({wanted} GiB, or the host's by --ipc=host)"
    if owner is not None and owner.loader.num_workers:
        loader = owner.loader
        waiting = loader.num_workers * (loader.prefetch_factor or 2)
        fewer = settings(loader, num_workers=max(loader.num_workers // 2, 1), prefetch_factor=1)
        text += f", or have fewer batches wait in it: now up to {many(waiting, 'batch')}, with {fewer} fewer"
    text += ". The file_system sharing strategy does not help: it uses the same /dev/shm."
    return Remedy(text, [f"docker run --shm-size={wanted}g …", f"sudo mount -o remount,size={wanted}G /dev/shm"])
