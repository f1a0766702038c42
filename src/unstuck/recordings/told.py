"""What the training told of itself: its newest values, and what it saved."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ..inside import format as f
from ..inside.format import Kind
from ..model.told import Metric, Saved
from .reader import BoardEntry, Recording


def metrics(recording: Recording, board: list[BoardEntry], at: Callable[[int], float]) -> list[Metric]:
    """The newest of each name that has a place on the board. A step of -1: it was not told."""
    newest = {one.key: (one.since, one.a, one.b) for one in board if one.kind == Kind.METRIC}
    for row in recording.events(Kind.METRIC).tolist() if newest else ():  # the board is a moment behind the ring
        key, when = row[f.R_KEY], row[f.R_START]
        if key in newest and when >= newest[key][0]:
            newest[key] = (when, row[f.R_A], row[f.R_B])
    return [
        Metric(name=recording.string(key), value=_double(bits), step=step - 1, at=at(when))
        for key, (when, step, bits) in newest.items()
    ]


def saved(recording: Recording, notes: list[list[int]], at: Callable[[int], float]) -> list[Saved]:
    """As far back as notes and ring go, oldest first."""
    ring: list[list[int]] = recording.events(Kind.SAVE).tolist()
    found = [one for one in notes if one[f.R_KIND] == Kind.SAVE] + ring
    return [
        Saved(path=recording.string(one[f.R_KEY]), at=at(one[f.R_START]), seconds=one[f.R_DURATION] / 1e9)
        for one in sorted(found, key=lambda one: one[f.R_START])
    ]


def _double(word: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<Q", word))
    return float(value)
