"""Puts a batch together as a worker does it: torch's own collate function then writes into shared memory."""

from __future__ import annotations

import threading
from typing import Any

from .meter import give_back

IDLE = 0.25  # seconds after which a worker that was given nothing more to do has freed its samples


def collated(loader: Any, samples: Any, *, in_worker: bool) -> Any:
    if not in_worker:
        return loader.collate_fn(samples)
    from torch.utils.data._utils import worker

    before = worker._worker_info
    worker._worker_info = worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=loader.dataset)
    try:
        return loader.collate_fn(samples)
    except RuntimeError:  # /dev/shm may be too small for it: how large it is can be seen all the same
        worker._worker_info = before
        return loader.collate_fn(samples)
    finally:
        worker._worker_info = before


class GivingBack:
    """A collate function after which the worker gives back what it has freed: what is left is its own.

    It says so in a file, with one letter for each batch.
    """

    def __init__(self, collate: Any, path: str) -> None:
        self._collate, self._path = collate, path

    def __call__(self, samples: Any) -> Any:
        batch = self._collate(samples)
        timer = threading.Timer(IDLE, self._settle)
        timer.daemon = True
        timer.start()
        return batch

    def _settle(self) -> None:
        give_back()
        with open(self._path, "a") as file:
            file.write(".")
