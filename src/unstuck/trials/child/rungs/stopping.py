"""Leave a pass in the middle and begin another: the workers of the first have to end, those of the next to start."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..loaders import rebuilt
from ..opening import opened

if TYPE_CHECKING:
    from ..request import Facts


def run(request: dict[str, Any], facts: Facts) -> None:
    """`change`: settings of the loader."""
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
    facts.put(during="taking two batches of a pass")
    for _batch in loader:
        count += 1
        if count == 2:
            break
    facts.put(during="ending a pass in its middle")
    return count, time.monotonic()
