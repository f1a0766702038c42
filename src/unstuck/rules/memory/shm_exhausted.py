"""Shared memory is full, so workers cannot hand over their batches.

## What it looks at
Exceptions of workers and main processes that come from allocating shared memory and carry the kernel's "no space left",
with the size and free space of /dev/shm at that very moment; and workers that ended by SIGBUS while /dev/shm was full.

## Why it happens
Every tensor that crosses from a worker to the main process lies in /dev/shm. Docker gives a container 64 MiB of it
unless told otherwise. What is needed at once is about num_workers x prefetch_factor batches, plus those in use.

## What to do
Enlarge it: `docker run --shm-size=8g` or `--ipc=host`, in Kubernetes an emptyDir of medium Memory on /dev/shm, on a
machine of your own a remount. Or need less: fewer workers, prefetch_factor=1, smaller batches or smaller types.
Switching torch to the `file_system` sharing strategy does not help: it uses the same /dev/shm.

## How sure it is
Sure: the kernel refused the space, and the size it refused is known. That a batch alone may be larger than all of
/dev/shm is the reason why free space at the crash is shown, but not required to be zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.evidence import Evidence, Owner
from ...model.phrases import duration, many, said, size, who
from ...model.questions import abnormal_worker_exits, host_of
from ...model.recorded import Failure, Process
from ...model.report import Certainty, Finding, Remedy, Subject, Symptom
from ...model.rule import rule
from ...model.speaking import settings

DOCKER_DEFAULT = 64 << 20
NEARLY_FULL = 0.95  # torch fails to allocate a little before the tmpfs is full
SIGBUS = -7
SHARING = ("/torch/storage.py", "/torch/multiprocessing/", "/torch/utils/data/_utils/collate.py", "/multiprocessing/")


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    outranks=("worker-python-exception", "uncaught-exception", "worker-killed"),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    refused = [(one, process) for process in evidence.recording or () for one in process.failures if _refused(one)]
    for failure, process in sorted(refused, key=lambda one: one[0].at)[:1]:
        seen = [said(failure), *_space(failure.shm_size, failure.shm_free)]
        yield _finding(evidence, process, failure.at, seen, failure.shm_size)
    if not refused:
        yield from _bus_errors(evidence)


def _refused(failure: Failure) -> bool:
    """The kernel had no space for a shared segment: torch says so, or its sharing code is where it failed."""
    text = failure.message
    refused = "No space left on device" in text or "(28)" in text
    about_shm = "shared memory" in text or "/torch_" in text or "/dev/shm" in text
    frames = failure.frames[-3:]
    in_sharing = any(part in frame.file for frame in frames for part in SHARING)
    nearly_full = failure.shm_size and (failure.shm_free or 0) < (1 - NEARLY_FULL) * failure.shm_size
    return refused and (about_shm or (in_sharing and bool(nearly_full)))


def _bus_errors(evidence: Evidence) -> Iterator[Finding]:
    for seen, worker in abnormal_worker_exits(evidence) if evidence.exits is not None else ():
        host = host_of(evidence, worker)
        full = [one for one in host.samples if _is_full(one.shm_size, one.shm_free)] if host else []
        if seen.status == SIGBUS and full:
            told = [f"worker {worker.worker} ended by SIGBUS after {duration(seen.at)}"]
            yield _finding(
                evidence, worker, seen.at, [*told, *_space(full[-1].shm_size, full[-1].shm_free)], full[-1].shm_size
            )
            return


def _is_full(total: int | None, free: int | None) -> bool:
    return bool(total) and free is not None and free < (1 - NEARLY_FULL) * (total or 0)


def _space(total: int | None, free: int | None) -> Iterator[str]:
    if total is not None and free is not None:
        yield f"/dev/shm has {size(total)}, of which {size(free)} were free at that moment"
        if total <= DOCKER_DEFAULT:
            yield "64 MiB or less is what Docker gives a container that does not ask for more"


def _finding(evidence: Evidence, process: Process, at: float, seen: list[str], total: int | None) -> Finding:
    owner = evidence.owner_of(process.node, process.pid)
    return Finding(
        cause=f"Shared memory is full: {who(process)} could not hand over a batch through /dev/shm"
        + (f" of {size(total)}." if total else "."),
        seen=seen,
        remedy=_remedy(owner, total),
        node=process.node,
        rank=process.rank,
        worker=process.worker,
        pid=process.pid,
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
