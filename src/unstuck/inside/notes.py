"""What the user's code says about itself with `unstuck.note`: kept as plain values, whatever it was."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import Any

from .buckets import name_of, summed
from .format import Kind
from .recorder import Recorder, clock
from .redaction import redacted

ITEMS, DEEP, LONGEST = 32, 3, 300
TOLD = 256  # of a process: who tells something with every step is after a metric
BUCKETS = "BUCKETS"
FILES, BATCHES = ("files", "buckets", "bucket_sizes"), ("batches", "batch_indices", "total_batches", "total")


class Told:
    """How many there were, by recording."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.count = 0


def tell(recorder: Recorder, tag: str, facts: dict[str, Any]) -> None:
    if told.recorder is not recorder:
        told.recorder, told.count = recorder, 0
    told.count += 1
    if told.count > TOLD:
        return
    text = json.dumps(_plain(facts, 0), ensure_ascii=False)
    recorder.note(Kind.NOTE, recorder.intern(redacted(str(tag))[:80]), clock(), 0, recorder.intern(text))
    if str(tag).upper() == BUCKETS:
        known = json.dumps(_buckets(facts), ensure_ascii=False)
        recorder.note(Kind.BUCKETS, 0, clock(), 0, recorder.intern(known))


def _buckets(facts: dict[str, Any]) -> dict[str, Any]:
    """Numbers, or lists that are counted."""
    files: Any = next((facts[name] for name in FILES if name in facts), {})
    sizes = {name_of(key): _count(one) or 0 for key, one in files.items()} if type(files) is dict else {}
    if type(files) in (list, tuple):
        sizes = {str(number): _count(one) or 0 for number, one in enumerate(files)}
    known = summed(sizes)
    known.update(
        told=True,
        dataset=facts["dataset"] if type(facts.get("dataset")) is str else "",
        batch_size=_count(facts.get("batch_size")),
        batches=next((_count(facts[name]) for name in BATCHES if name in facts), None),
    )
    if type(files) is int:
        known["total_files"] = files
    return known


def _count(value: Any) -> int | None:
    if type(value) is int:
        return value
    return len(value) if type(value) in (list, tuple, dict, set) else None


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in (int, float, bool, type(None)):
        return value if kind is not float or math.isfinite(value) else str(value)
    if kind is str:
        return redacted(value)[:LONGEST]  # before it is cut: half a secret has no shape
    if kind is dict and depth < DEEP:
        return {name_of(key): _plain(one, depth + 1) for key, one in islice(value.items(), ITEMS)}
    if kind in (list, tuple) and depth < DEEP:
        return [_plain(one, depth + 1) for one in islice(value, ITEMS)]
    return kind.__name__


told = Told()
