"""Deaths by a full /dev/shm: a process that writes to a segment for which the kernel has no memory left gets SIGBUS.

Newer versions of torch ask for the memory first, and raise. Older ones, and two workers that ask at once, find out by
writing. A look every half second rarely meets the full moment, since a worker's death gives its segments back.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..evidence.loader import Loader
from ..evidence.process import Failure, Process
from ..wording.text import many, size
from .case import Case
from .failures import Death

SIGBUS = -7
NEARLY_FULL = 0.95  # torch fails to allocate a little before the tmpfs is full
NEAR = 5.0  # seconds between the death of one worker and a refusal that another met: the same full moment
# Where torch writes to shared memory: collating straight into it, or copying a tensor that is sent.
SHARING = ("/torch/storage.py", "/torch/multiprocessing/", "/torch/utils/data/_utils/collate.py", "/multiprocessing/")


def is_full(total: int | None, free: int | None) -> bool:
    return bool(total) and free is not None and free < (1 - NEARLY_FULL) * (total or 0)


def is_refused(failure: Failure) -> bool:
    """The kernel had no space for a shared segment: torch says so, or its sharing code is where it failed."""
    text = failure.message
    refused = "No space left on device" in text or "(28)" in text
    about_shm = "shared memory" in text or "/torch_" in text or "/dev/shm" in text
    in_sharing = any(part in frame.file for frame in failure.frames[-3:] for part in SHARING)
    return refused and (about_shm or (in_sharing and is_full(failure.shm_size, failure.shm_free or 0)))


def seen_full(case: Case, death: Death) -> tuple[int, int] | None:
    """Size and free space of /dev/shm at the newest look that met it full, if this death can be one of it."""
    host = case.host_of(death.worker)
    if death.seen.status != SIGBUS or host is None:
        return None
    looks = [(look.shm_size or 0, look.shm_free or 0) for look in host.samples if is_full(look.shm_size, look.shm_free)]
    return looks[-1] if looks else None


def refused_beside(case: Case, death: Death) -> Failure | None:
    """What another process of the node was told at about the same time."""
    if death.seen.status != SIGBUS:
        return None
    near = [process for process in case.recording or () if process.node == death.worker.node]
    refusals = [failure for process in near for failure in process.failures if is_refused(failure)]
    return next((failure for failure in refusals if abs(failure.at - death.seen.at) <= NEAR), None)


def too_small_for(case: Case, death: Death) -> list[str]:
    """It died while it wrote to shared memory, and the loaders of its node may have more on their way than fits."""
    crash, total = death.worker.crash, size_of(case, death)
    if death.seen.status != SIGBUS or not crash or not total:
        return []
    if not any(part in crash[-1].file for part in SHARING):
        return []
    waiting = list(_waiting(case, death.worker.node))
    if sum(bytes_ for _, _, bytes_ in waiting) < NEARLY_FULL * total:
        return []
    return [f"up to {many(batches, 'batch')} of {size(bytes_ // batches)} wait in it" for _, batches, bytes_ in waiting]


def is_explained(case: Case, death: Death) -> bool:
    return (
        seen_full(case, death) is not None
        or refused_beside(case, death) is not None
        or bool(too_small_for(case, death))
    )


def size_of(case: Case, death: Death) -> int:
    """Of /dev/shm. 0: nobody looked."""
    host = case.host_of(death.worker)
    sizes = [look.shm_size or 0 for look in host.samples] if host else []
    return max([*sizes, *(failure.shm_size or 0 for failure in death.main.failures)], default=0)


def _waiting(case: Case, node: str) -> Iterator[tuple[Loader, int, int]]:
    """Each loader of the node with workers: how many batches may lie in /dev/shm at once, and how many bytes they are.

    One more than its workers prefetch: the one that the training has in hand.
    """
    for main in case.mains:
        for loader in main.loaders if main.node == node else ():
            largest = max((_largest(worker) for worker in case.workers_of(main, loader)), default=0)
            if largest and loader.num_workers:
                batches = loader.num_workers * (loader.prefetch_factor or 2) + 1
                yield loader, batches, batches * largest


def _largest(worker: Process) -> int:
    return max((handed.storage for fetching in worker.fetching for handed in fetching.handed), default=0)
