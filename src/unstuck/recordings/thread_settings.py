"""What a recording says of the threads of its process."""

from __future__ import annotations

import msgspec

from ..evidence.process import Shared, Threads
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts


def threads(facts: Facts) -> Threads | None:
    notes = facts.noted(Kind.THREADS)
    told = facts.recording.told(notes[0][f.R_A]) if notes else {}
    if not told:
        return None
    looked = [_shared(facts, one) for one in facts.noted(Kind.SHARED)]
    return msgspec.convert({**told, "shared": looked}, Threads)


def _shared(facts: Facts, one: list[int]) -> Shared:
    return msgspec.convert({**facts.recording.told(one[f.R_A]), "loader": one[f.R_KEY]}, Shared)
