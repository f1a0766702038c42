"""What torch.compile has compiled."""

from __future__ import annotations

import msgspec

from ..evidence.basics import Place
from ..evidence.loader import Compiled
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts


def compiled(facts: Facts) -> list[Compiled]:
    """In the order of time, each with how often its function had been compiled by then."""
    found, counts = [], dict[Place, int]()
    for one in facts.noted(Kind.COMPILED):
        known = facts.recording.told(one[f.R_A])
        function = {name: known[name] for name in ("file", "line", "function") if name in known}
        where = msgspec.convert({"file": "", **function}, Place)
        counts[where] = counts.get(where, 0) + 1
        told = {name: known[name] for name in ("reason", "limited") if name in known}
        times = {"at": facts.at(one[f.R_START]), "seconds": one[f.R_DURATION] / 1e9}
        found.append(msgspec.convert({**told, **times, "where": where, "count": counts[where]}, Compiled))
    return found
