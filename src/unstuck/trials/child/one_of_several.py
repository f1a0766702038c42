"""Lets the only worker take itself for one of several: of a stream it reads its share, and ends where that ends."""

from __future__ import annotations

from typing import Any


class OneOfSeveral:
    """A worker_init_fn, around the user's own. Streams ask torch how many workers there are, and share by that."""

    def __init__(self, workers: int, init: Any) -> None:
        self._workers, self._init = workers, init

    def __call__(self, number: int) -> None:
        from torch.utils.data._utils import worker

        own = worker._worker_info
        if own is not None:
            worker._worker_info = worker.WorkerInfo(
                id=own.id, num_workers=self._workers, seed=own.seed, dataset=own.dataset
            )
        if self._init is not None:
            self._init(number)
