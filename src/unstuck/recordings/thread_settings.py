"""What a recording says of the threads of its process."""

from __future__ import annotations

import msgspec

from ..inside import format as f
from ..inside.format import Kind
from ..model.threads import Shared, Threads
from .data_facts import Noted


def threads(facts: Noted) -> Threads | None:
    notes = facts.noted(Kind.THREADS)
    text = facts.recording.string(notes[0][f.R_A]) if notes else ""
    if not text:
        return None
    looked = [_shared(facts, one) for one in facts.noted(Kind.SHARED)]
    return msgspec.convert({**msgspec.json.decode(text), "shared": looked}, Threads)


def _shared(facts: Noted, one: list[int]) -> Shared:
    text = facts.recording.string(one[f.R_A])
    return msgspec.convert({**(msgspec.json.decode(text) if text else {}), "loader": one[f.R_KEY]}, Shared)
