"""Use the loader as a training does: make it, one batch, passes, a pass that is left in its middle."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset

from ..loaders import rebuilt
from ..sizes import sizes_of
from ..stand_ins import endless
from ..target import opened

if TYPE_CHECKING:
    from ..request import Facts

LONGER = 9.0  # seconds


def construct(request: dict[str, Any], facts: Facts) -> None:
    """Import the target and make its loader; nothing else."""
    opened(request, facts)


def collate(request: dict[str, Any], facts: Facts) -> None:
    """Make one batch in the main process, as the loader would: load its samples, then collate them."""
    loader = opened(request, facts)
    facts.put(during="sample")
    samples = _first_samples(loader)
    facts.put(during="collate", samples_in_batch=len(samples) if isinstance(samples, list) else 1)
    began = time.perf_counter()
    batch = loader.collate_fn(samples)
    facts.put(during="", collated=time.perf_counter() - began, batch=sizes_of(batch).facts())


def _first_samples(loader: Any) -> Any:
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


def passes(request: dict[str, Any], facts: Facts) -> None:
    """Loop over the loader: some batches, in one pass or several, with the workers that are asked for.

    `change`: settings of the loader; `batches`: most of a pass; `passes`; `seconds`: after which it is enough;
    `least`: batches for which it goes on somewhat longer, where they come slowly.
    """
    options = request["options"]
    loader = opened(request, facts)
    if options.get("change"):
        loader = rebuilt(loader, **options["change"])
    facts.put(workers=loader.num_workers)
    rounds = options.get("passes", 1)
    counts: list[int] = []
    ended: list[bool] = []
    for _ in range(rounds):
        until = 0.0  # from the first batch on: workers may take long to start
        counts.append(0)
        ended.append(True)
        facts.put(batches=counts, ended=ended, first=None)
        for batch in loader:
            counts[-1] += 1
            del batch
            until = until or time.monotonic() + options.get("seconds", 20.0) / rounds
            late = time.monotonic() - until
            enough = late > 0 and (counts[-1] >= options.get("least", 1) or late > LONGER)
            if counts[-1] >= options.get("batches", 20) or enough:
                ended[-1] = False
                break
        facts.put(batches=counts, ended=ended)
    stream = isinstance(loader.dataset, IterableDataset)  # whether that can be read twice, another rung tries
    if ended[-1] and options.get("least") and loader.num_workers and not stream:
        _go_on(loader, options.get("seconds", 20.0))


def _go_on(loader: Any, seconds: float) -> None:
    """Where a whole pass was short: the same for longer. What workers take of a processor shows only then."""
    changes, _ = endless(loader)
    until = time.monotonic() + seconds
    for batch in rebuilt(loader, **changes):
        del batch
        if time.monotonic() > until:
            return


def stopping(request: dict[str, Any], facts: Facts) -> None:
    """Leave a pass in the middle and begin another: the first one's workers have to end, the next one's to start.

    `change`: settings of the loader.
    """
    loader = opened(request, facts)
    if request["options"].get("change"):
        loader = rebuilt(loader, **request["options"]["change"])
    facts.put(workers=loader.num_workers)
    batches: list[int] = []
    ending: list[float] = []
    for _ in range(2):
        count, left = _begun(loader, facts)
        batches.append(count)
        ending.append(time.monotonic() - left)
        facts.put(batches=batches, left_in=ending, during="")


def _begun(loader: Any, facts: Facts) -> tuple[int, float]:
    """Two batches of a pass, and when it was left. Its iterator goes when this returns, and its workers with it."""
    count = 0
    facts.put(during="loading two batches of an epoch")
    for _batch in loader:
        count += 1
        if count == 2:
            break
    facts.put(during="stopping in mid-epoch")
    return count, time.monotonic()
