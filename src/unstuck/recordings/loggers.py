"""Logging libraries that a process has set up, and what they were told in vain."""

from __future__ import annotations

from typing import Any

import msgspec

from ..evidence.loader import Logger
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts


def loggers(facts: Facts) -> list[Logger]:
    """In the order in which they were set up, with what was counted for all of a name at the last of them."""
    found: list[dict[str, Any]] = []
    for one in facts.noted(Kind.LOGGER):
        told = facts.recording.told(one[f.R_A])
        same = [other for other in found if other.get("name") == told.get("name")]
        if same and not told.get("mode") and "folder" not in told:  # no other logger, more of the last one
            same[-1].update(told, where=same[-1].get("where"))
        elif told:
            found.append({**told, "at": facts.at(one[f.R_START])})
    for entry in facts.board:
        counted = [one for one in found if one.get("name") == facts.recording.string(entry.key)]
        if entry.kind == Kind.LOGGER and counted:
            counted[-1].update(uncommitted=entry.a, lost=entry.b, kept=entry.c, refused=entry.d)
    return [msgspec.convert(one, Logger, strict=False) for one in found]
