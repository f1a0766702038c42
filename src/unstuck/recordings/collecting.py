"""Pauses of the garbage collector while the process trained: not in its set-up, nor while something was compiled."""

from __future__ import annotations

import numpy as np

from ..evidence.basics import Timing
from ..evidence.loader import COLLECTION
from ..inside import format as f
from ..inside.format import GARBAGE, Kind
from .calls import named
from .phases import passes
from .reader import Facts


def collecting(facts: Facts) -> Timing:
    """Of all since the training began. Where something was compiled, as far back as the ring has them."""
    keys = [key for kind, key in facts.totals if kind == Kind.CALL and _is_collection(facts, key)]
    if not keys or not passes(facts):
        return Timing()
    total, compiled = facts.timing(Kind.CALL, keys[0]), facts.noted(Kind.COMPILED)
    if not compiled:
        return total
    begun = max(one[f.R_START] + one[f.R_DURATION] for one in compiled)
    rows = facts.recording.events(Kind.CALL, keys[0])
    took = rows[rows[:, f.R_START] >= begun, f.R_DURATION].astype(np.int64)
    if not len(took):
        return Timing()
    longest, p50 = float(took.max()) / 1e9, float(np.median(took)) / 1e9
    return Timing(len(took), float(took.sum()) / 1e9, longest, p50)


def _is_collection(facts: Facts, key: int) -> bool:
    """A pause of the collector itself, whoever asked for it."""
    found = named(facts.recording.string(key))
    return found.what == COLLECTION and found.name == GARBAGE
