"""Lists of files that a process goes through, and what went wrong with which."""

from __future__ import annotations

from typing import Any

import msgspec

from ..inside import format as f
from ..inside.format import Kind
from ..model.shards import ShardError, Shards
from .loggers import Told


def shards(facts: Told) -> list[Shards]:
    return [_shards(facts, one) for one in facts.noted(Kind.SHARDS)]


def _shards(facts: Told, one: list[int]) -> Shards:
    known = decoded(facts, one[f.R_KEY])
    now = next((entry for entry in facts.board if (entry.kind, entry.key) == (Kind.SHARDS, one[f.R_KEY])), None)
    if now is not None:
        known.update(opened=now.a, finished=now.b, samples=now.c, failed=now.d, now=now.text)
        known.update(now_since=facts.at(now.since))
    errors = [_error(facts, each) for each in facts.noted(Kind.SHARD_ERROR) if each[f.R_KEY] == one[f.R_KEY]]
    return msgspec.convert({**known, "at": facts.at(one[f.R_START]), "errors": errors}, Shards, strict=False)


def _error(facts: Told, one: list[int]) -> ShardError:
    known = decoded(facts, one[f.R_A])
    known.update(at=facts.at(one[f.R_START]), before=one[f.R_B], slept=one[f.R_C] / 1e9)
    return msgspec.convert(known, ShardError, strict=False)


def decoded(facts: Told, number: int) -> dict[str, Any]:
    """Facts that were written as JSON; what is not known stays at its default."""
    text = facts.recording.string(number)
    told: dict[str, Any] = msgspec.json.decode(text) if text else {}
    return {name: value for name, value in told.items() if value is not None}
