"""Lines about checkpoints: what was saved, how long it took and how large it is, and what could not be saved."""

from __future__ import annotations

import json

from ..inside.format import SAVED_ASIDE, SAVED_HELD, SAVERS
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from ..wording.text import duration, size
from .line import ERROR, INFO, Line


def saved(tail: Tail, rank: str, one: Record) -> list[Line]:
    if one.a & SAVED_HELD:  # only begun: that it has been saved is told when it has
        return []
    path = tail.string(one.key) or "a file whose name found no room"
    aside = ", in the background" if one.a & SAVED_ASIDE else ""
    took = f"{SAVERS[one.a & 3]} took {duration(one.duration / 1e9)}{aside}{_speed(one)}"
    text = f"{rank} Checkpoint saved: {path} ({took})"
    return [Line(tail.seconds(one.end), INFO, "checkpoint", text, key=True)]


def failed(tail: Tail, rank: str, one: Record) -> list[Line]:
    known = json.loads(tail.string(one.a) or "{}")
    first = str(known.get("failed", "an exception")).splitlines()[0]
    remains = known.get("size")
    left = f"; {size(remains)} of it are on disk, which cannot be loaded" if remains else ""
    free = f"; {size(known['free'])} were free" if "free" in known else ""
    text = f"{rank} ❌ Checkpoint not saved: {tail.string(one.key)}: {first}{left}{free}"
    return [Line(tail.seconds(one.end), ERROR, "checkpoint", text, key=True)]


def _speed(one: Record) -> str:
    if one.b <= 1 or not one.duration:
        return ""
    return f": {size(one.b - 1)}, {size((one.b - 1) / (one.duration / 1e9))}/s"
