"""Loop over the loader: some batches, in one pass or several, with the workers that are asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset

from ..drawing import endless
from ..loaders import rebuilt
from ..opening import opened

if TYPE_CHECKING:
    from ..request import Facts

LONGER = 9.0  # seconds


def run(request: dict[str, Any], facts: Facts) -> None:
    """`change`: settings of the loader; `batches`: most of a pass; `passes`; `seconds`: after which it is enough.

    `least`: batches for which it goes on somewhat longer, where they come slowly.
    """
    options = request["options"]
    loader = opened(request, facts)
    if options.get("change"):
        loader = rebuilt(loader, **options["change"])
    facts.put(workers=loader.num_workers)
    passes = options.get("passes", 1)
    counts: list[int] = []
    ended: list[bool] = []
    for _ in range(passes):
        until = 0.0  # from the first batch on: workers may take long to start
        counts.append(0)
        ended.append(True)
        facts.put(batches=counts, ended=ended, first=None)
        for batch in loader:
            counts[-1] += 1
            del batch
            until = until or time.monotonic() + options.get("seconds", 20.0) / passes
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
