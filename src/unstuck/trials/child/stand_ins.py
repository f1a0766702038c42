"""What a loader is given instead of its own parts, to see what these cost. Spawned workers find them by name."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset

from . import choosing
from .loaders import rebuilt
from .sizes import sizes_of

ENOUGH = 64  # samples to be handed out again and again
MUCH = 64 << 20  # bytes of them: a spawned worker is sent all


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


def nothing(batch: Any) -> int:
    """A collate_fn: the samples were loaded, and a number is all that is handed over."""
    return len(batch) if isinstance(batch, list) else 1


def cached(loader: Any, seconds: float, **changes: Any) -> Any:
    """The loader over samples that were loaded before. What a worker begins with is left out: it is for the dataset."""
    kept = collected(loader, seconds)
    changes["worker_init_fn"] = None
    if choosing.is_stream(loader.dataset):
        return rebuilt(loader, dataset=CachedStream(kept), **changes)
    size = changes.pop("batch_size", None) or choosing.batch_size(loader)
    return rebuilt(loader, dataset=Cached(kept), sampler=Numbers(), batch_size=size, **changes)


def collected(loader: Any, seconds: float) -> list[Any]:
    """Some samples, as many as the time and the room allow: two at least."""
    kept: list[Any] = []
    held, until = 0, time.monotonic() + seconds
    for sample in itertools.islice(samples(loader), ENOUGH):
        kept.append(sample)
        held += sizes_of(sample).held
        if len(kept) > 1 and (held >= MUCH or time.monotonic() > until):
            break
    return kept


def samples(loader: Any) -> Iterator[Any]:
    if choosing.is_stream(loader.dataset):
        yield from loader.dataset
    else:
        for key in choosing.keys(loader, ENOUGH):
            yield loader.dataset[key]
