"""Pauses of the garbage collector while the process trained: not in its set-up, nor while something was compiled."""

from __future__ import annotations

import numpy as np

from ..inside import format as f
from ..inside.format import GARBAGE, Kind
from ..model.between import COLLECTION
from ..model.timing import Timing
from .calls import Timed, named
from .passes import passes


def collecting(facts: Timed) -> Timing:
    """All pauses, without those of before the first pass over a loader, as far back as the ring has them."""
    keys = [key for kind, key in facts.totals if kind == Kind.CALL and _is_collection(facts, key)]
    begun = min((one.begun for one in passes(facts)), default=None)
    if not keys or begun is None:
        return Timing()
    total = facts.timing(Kind.CALL, keys[0])
    rows = facts.recording.events(Kind.CALL, keys[0])
    starts, took = rows[:, f.R_START].astype(np.int64), rows[:, f.R_DURATION].astype(np.int64)
    aside = starts < begun
    for one in facts.noted(Kind.COMPILED):
        aside |= (starts >= one[f.R_START]) & (starts < one[f.R_START] + one[f.R_DURATION])
    inside = took[~aside]
    count = total.count - int(aside.sum())
    if count <= 0 or not len(inside):
        return Timing()
    longest, p50 = float(inside.max()) / 1e9, float(np.median(inside)) / 1e9
    return Timing(count, max(total.total - float(took[aside].sum()) / 1e9, 0.0), longest, p50)


def _is_collection(facts: Timed, key: int) -> bool:
    """A pause of the collector itself, whoever asked for it."""
    found = named(facts.recording.string(key))
    return found.what == COLLECTION and found.name == GARBAGE
