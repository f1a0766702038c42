"""What a loader is given instead of its own parts: a sampler or a stream without an end, samples that are in memory.

A measurement needs no end of a pass, however short the dataset is. And what a part costs is seen by what changes when
it is replaced. Spawned workers find all of these by name.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset

from .loaders import batch_size, is_stream, rebuilt, sample_keys
from .request import private
from .sizes import sizes_of
from .usage import give_back

ENOUGH = 64  # samples to be handed out again and again
MUCH = 64 << 20  # bytes of them: a spawned worker is sent all
IDLE = 0.25  # seconds after which a worker that was given nothing more to do has freed its samples


def endless(loader: Any) -> tuple[dict[str, Any], Endless | None]:
    """What has to be changed in a loader so that it does not end, and who draws."""
    if isinstance(loader.dataset, IterableDataset):
        return {"dataset": Repeating(loader.dataset)}, None
    if loader.batch_sampler is not None:
        drawn = Endless(loader.batch_sampler)
        return {"batch_sampler": drawn}, drawn
    drawn = Endless(loader.sampler)
    return {"sampler": drawn}, drawn


def samples_of(batch: Any, loader: Any) -> int:
    """Of a stream: its batch size, or, where the dataset makes the batches, the one length that all parts have."""
    if loader.batch_size is not None:
        return int(loader.batch_size)
    parts = list(batch.values()) if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else [batch]
    lengths = {_length(one) for one in parts if not isinstance(one, (str, bytes))}
    return max(lengths.pop(), 1) if len(lengths) == 1 else 1


def cached(loader: Any, seconds: float, **changes: Any) -> Any:
    """The loader over samples that were loaded before. What a worker begins with is left out: it is for the dataset."""
    kept = _collected(loader, seconds)
    changes["worker_init_fn"] = None
    if is_stream(loader.dataset):
        return rebuilt(loader, dataset=CachedStream(kept), **changes)
    size = changes.pop("batch_size", None) or batch_size(loader)
    return rebuilt(loader, dataset=Cached(kept), sampler=Numbers(), batch_size=size, **changes)


def samples(loader: Any) -> Iterator[Any]:
    if is_stream(loader.dataset):
        yield from loader.dataset
    else:
        for key in sample_keys(loader, ENOUGH):
            yield loader.dataset[key]


def nothing(batch: Any) -> int:
    """A collate_fn: the samples were loaded, and a number is all that is handed over."""
    return len(batch) if isinstance(batch, list) else 1


class Endless:
    """What a sampler draws, pass after pass. Who asks again goes on where the last one stopped, with unread data."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._drawn: Iterator[Any] = self._all()
        self.sizes: deque[int] = deque()  # samples of the batches that were asked for, in order
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        self.sizes.clear()
        for one in self._drawn:
            self.sizes.append(len(one) if isinstance(one, (list, tuple)) else 1)
            self.count += 1
            yield one

    def _all(self) -> Iterator[Any]:
        some = True
        while some:
            some = False
            for one in self._sampler:
                some = True
                yield one

    def skip(self, count: int) -> None:
        for _ in range(count):
            next(self._drawn, None)


class Repeating(IterableDataset[Any]):
    """A stream that begins again when it ends. What a worker_init_fn asks of it or sets is the user's own dataset's."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)

    def __iter__(self) -> Iterator[Any]:
        some = True
        while some:
            some = False
            for one in self._inner:
                some = True
                yield one

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_inner":  # while it is unpickled there is none yet
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __reduce__(self) -> Any:
        return type(self), (self._inner,)


def _length(part: Any) -> int:
    shape = getattr(part, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(part) if isinstance(part, (list, tuple)) else 0


class Numbers:
    """A sampler of all numbers."""

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


class Cached:
    """A dataset of samples that are in memory already."""

    def __init__(self, kept: list[Any]) -> None:
        self._kept = kept

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> Any:
        return self._kept[index % len(self._kept)]


class CachedStream(IterableDataset[Any]):
    """The same as a stream."""

    def __init__(self, kept: list[Any]) -> None:
        self._kept = kept

    def __iter__(self) -> Iterator[Any]:
        return itertools.cycle(self._kept)


def _collected(loader: Any, seconds: float) -> list[Any]:
    """Some samples, as many as the time and the room allow: two at least."""
    kept: list[Any] = []
    held, until = 0, time.monotonic() + seconds
    for sample in itertools.islice(samples(loader), ENOUGH):
        kept.append(sample)
        held += sizes_of(sample).held
        if len(kept) > 1 and (held >= MUCH or time.monotonic() > until):
            break
    return kept


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
        with open(self._path, "a", opener=private) as file:
            file.write(".")
