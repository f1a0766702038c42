"""Make one batch in the main process, as the loader would: load its samples, then collate them."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset

from ..opening import opened
from ..sizes import sizes_of

if TYPE_CHECKING:
    from ..request import Facts


def run(request: dict[str, Any], facts: Facts) -> None:
    loader = opened(request, facts)
    facts.put(during="sample")
    samples = _samples(loader)
    facts.put(during="collate", samples_in_batch=len(samples) if isinstance(samples, list) else 1)
    began = time.perf_counter()
    batch = loader.collate_fn(samples)
    facts.put(during="", collated=time.perf_counter() - began, batch=sizes_of(batch).facts())


def _samples(loader: Any) -> Any:
    """Of the first batch. Where the loader does not put batches together, one."""
    dataset, whole = loader.dataset, loader.batch_sampler is None and loader.batch_size is None
    if isinstance(dataset, IterableDataset):
        stream = iter(dataset)
        return next(stream) if whole else list(itertools.islice(stream, loader.batch_size))
    wanted = next(iter(loader.sampler if whole else loader.batch_sampler))
    if whole:
        return dataset[wanted]
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(list(wanted))
    return [dataset[index] for index in wanted]
