"""Loop over the loader: some batches, in one pass or several, with the workers that are asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..loaders import rebuilt
from ..opening import opened

if TYPE_CHECKING:
    from ..request import Facts


def run(request: dict[str, Any], facts: Facts) -> None:
    """`change`: settings of the loader; `batches`: most of a pass; `passes`; `seconds`: after which it is enough."""
    options = request["options"]
    loader = opened(request, facts)
    if options.get("change"):
        loader = rebuilt(loader, **options["change"])
    until = time.monotonic() + options.get("seconds", 20.0)
    counts: list[int] = []
    for _ in range(options.get("passes", 1)):
        counts.append(0)
        for _batch in loader:
            counts[-1] += 1
            if counts[-1] >= options.get("batches", 20) or time.monotonic() > until:
                break
        facts.put(batches=counts)
