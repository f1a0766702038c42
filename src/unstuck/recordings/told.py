"""What the training told of itself: its newest values."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from ..evidence.process import Metric, Progress
from ..inside import format as f
from ..inside.format import Kind
from .decoder import Entry
from .reader import Facts, Recording


def metrics(recording: Recording, board: list[Entry], at: Callable[[int], float]) -> list[Metric]:
    """The newest of each name that has a place on the board. A step of -1: it was not told."""
    newest = {one.key: (one.since, one.a, one.b) for one in board if one.kind == Kind.METRIC}
    rows = recording.events(Kind.METRIC).astype(np.int64).tolist() if newest else []
    for row in rows:  # the board is a moment behind the ring
        key, when = row[f.R_KEY], row[f.R_START]
        if key in newest and when >= newest[key][0]:
            newest[key] = (when, row[f.R_A], row[f.R_B])
    return [
        Metric(name=recording.string(key), value=_double(bits), step=step - 1, at=at(when))
        for key, (when, step, bits) in newest.items()
    ]


def progress(facts: Facts) -> list[Progress]:
    """The newest of each name."""
    return [_progress(facts, one) for one in facts.board if one.kind == Kind.PROGRESS]


def _progress(facts: Facts, entry: Entry) -> Progress:
    rose = [one[f.R_DURATION] / 1e9 for one in facts.noted(Kind.PROGRESS, entry.key)]
    return Progress(
        name=facts.recording.string(entry.key),
        have=entry.a,
        need=entry.b,
        unit=facts.recording.string(entry.c),
        since=facts.at(entry.since),
        first=facts.at(entry.d >> 1) if entry.d else None,
        rose=rose[0] if rose else None,
    )


def _double(word: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<q", word))
    return float(value)
