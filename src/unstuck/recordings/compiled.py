"""What torch.compile has compiled."""

from __future__ import annotations

from typing import Any

import msgspec

from ..inside import format as f
from ..inside.format import Kind
from ..model.between import Compiled
from ..model.places import Place
from .calls import Timed


def compiled(facts: Timed) -> list[Compiled]:
    """In the order of time, each with how often its function had been compiled by then."""
    found, counts = [], dict[Place, int]()
    for one in facts.noted(Kind.COMPILED):
        text = facts.recording.string(one[f.R_A])
        known: dict[str, Any] = msgspec.json.decode(text) if text else {}
        where = Place(known.get("file", ""), known.get("line", 0), known.get("function", ""))
        counts[where] = counts.get(where, 0) + 1
        reason, limited = known.get("reason", ""), known.get("limited", False)
        at, seconds = facts.at(one[f.R_START]), one[f.R_DURATION] / 1e9
        found.append(Compiled(at, seconds, where, reason, counts[where], limited))
    return found
