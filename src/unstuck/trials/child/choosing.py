"""Which samples of a loader are looked at: the first, the last and some between, the same ones every time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

PLAIN = ("SequentialSampler", "RandomSampler", "SubsetRandomSampler", "DistributedSampler", "WeightedRandomSampler")


def is_stream(dataset: Any) -> bool:
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset)


def keys(loader: Any, count: int, wanted: list[Any] | None = None) -> list[Any]:
    """Of a dataset with indices. A sampler of the user's own may give other things than numbers: then its first."""
    if wanted:
        return wanted[:count]
    length = _length(loader.dataset)
    if length is None or not _is_plain(loader):
        return list(islice(_drawn(loader), count))
    between = random.Random(0).sample(range(length), min(count, length))  # noqa: S311  (the same ones every time)
    ends = [0, length - 1] if length > 1 else [0][:length]
    rest = [one for one in between if one not in ends]
    return [*ends[:1], *rest[: max(count - 2, 0)], *ends[1:]][: max(count, 1)]


def is_batched(loader: Any) -> bool:
    """The DataLoader puts samples together; else the dataset gives whole batches, or single samples."""
    return loader.batch_sampler is not None


def batch_size(loader: Any) -> int | None:
    """As it is set; of a batch sampler of the user's own, as long as its first batch is."""
    size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    if isinstance(size, int) or loader.batch_sampler is None:
        return size if isinstance(size, int) else None
    first = next(iter(loader.batch_sampler), ())
    return len(first) if hasattr(first, "__len__") else None


def shares_at_once(loader: Any) -> bool:
    """torch's own collate function puts a worker's batch into shared memory directly; others make it twice."""
    function = loader.collate_fn
    own = getattr(function, "__module__", "") or ""
    return getattr(function, "__name__", "") == "default_collate" and own.startswith("torch.")


def _is_plain(loader: Any) -> bool:
    batches = loader.batch_sampler
    own = batches is not None and type(batches).__name__ != "BatchSampler"
    return not own and type(loader.sampler).__name__ in PLAIN


def _drawn(loader: Any) -> Iterator[Any]:
    batches = loader.batch_sampler
    return chain.from_iterable(batches) if batches is not None else iter(loader.sampler)


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None
