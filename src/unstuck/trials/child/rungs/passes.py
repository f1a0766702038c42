"""Loop over the loader: some batches, in one pass or several, with the workers that are asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

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
    _again(loader, options.get("least", 0) - sum(counts), options.get("seconds", 20.0))


def _again(loader: Any, missing: int, seconds: float) -> None:
    """Further passes where a whole one brings few batches: rules on how batches come want some of them."""
    until = time.monotonic() + seconds
    while missing > 0 and time.monotonic() < until:
        came = 0
        for _batch in loader:
            came += 1
            if time.monotonic() > until:
                return
        missing -= came
        if not came:
            return
