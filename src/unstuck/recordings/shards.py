"""Lists of files that a process goes through, and what went wrong with which."""

from __future__ import annotations

from typing import Any

import msgspec

from ..evidence.loader import ShardError, Shards, ShortShard
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts

HALF = 32  # bits of a word with two numbers


def shards(facts: Facts) -> list[Shards]:
    notes: dict[int, list[list[int]]] = {}
    for one in facts.noted(Kind.SHARDS):
        notes.setdefault(one[f.R_KEY], []).append(one)
    return [_shards(facts, key, own) for key, own in notes.items()]


def _shards(facts: Facts, key: int, notes: list[list[int]]) -> Shards:
    """Noted at its beginning, and at the end of a pass with how many there were and what one gave at most."""
    known = decoded(facts, key)
    ends = [one for one in notes if one[f.R_DURATION]]
    known.update(passes=len(ends), usual=max((one[f.R_B] >> HALF for one in ends), default=0))
    for files in (one[f.R_B] & (1 << HALF) - 1 for one in ends):
        known.update({} if known.get("mine") is not None or not files else {"mine": files - 1})
    now = next((entry for entry in facts.board if (entry.kind, entry.key) == (Kind.SHARDS, key)), None)
    if now is not None:
        known.update(opened=now.a, finished=now.b, samples=now.c, failed=now.d, now=now.text)
        known.update(now_since=facts.at(now.since))
    errors = [one for one in facts.noted(Kind.SHARD_ERROR) if one[f.R_KEY] == key]
    short = [one for one in facts.noted(Kind.SHARD_SHORT) if one[f.R_KEY] == key]
    known.update(short=[ShortShard(facts.recording.string(one[f.R_A]), one[f.R_B], one[f.R_C]) for one in short])
    known.update(at=facts.at(notes[0][f.R_START]), errors=_errors(facts, errors))
    return msgspec.convert(known, Shards, strict=False)


def _errors(facts: Facts, notes: list[list[int]]) -> list[ShardError]:
    """Those without a text say what became of the shard, of an error that began at the same moment."""
    later = {one[f.R_START]: {"gave": one[f.R_B], "usual": one[f.R_C]} for one in notes if not one[f.R_A]}
    back = {one[f.R_START] for one in notes if not one[f.R_A] and one[f.R_DURATION]}  # it could be read after all
    told = [one for one in notes if one[f.R_A] and one[f.R_START] not in back]
    return [_error(facts, one, later.get(one[f.R_START], {})) for one in told]


def _error(facts: Facts, one: list[int], later: dict[str, int]) -> ShardError:
    known = decoded(facts, one[f.R_A])
    known.update(at=facts.at(one[f.R_START]), before=one[f.R_B], slept=one[f.R_C] / 1e9, **later)
    return msgspec.convert(known, ShardError, strict=False)


def decoded(facts: Facts, number: int) -> dict[str, Any]:
    """Facts that were written as JSON; what is not known stays at its default."""
    return {name: value for name, value in facts.recording.told(number).items() if value is not None}
