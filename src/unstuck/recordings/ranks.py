"""What a rank recorded of its part in a distributed run: its group, and where it waited for the others."""

from __future__ import annotations

from typing import Any

import msgspec

from ..evidence.basics import Ordinal, Place
from ..evidence.distributed import Group, Span
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts

SPANS = 64  # the newest
MADE, FAILED = 1, 2


class _Group(msgspec.Struct):
    where: Place | None = None
    backend: str | None = ""
    address: str | None = ""
    rank: Ordinal | None = None
    world: Ordinal | None = None
    timeout: float | None = None
    variables: dict[str, str] = {}


def group(facts: Facts) -> Group | None:
    """The newest: one that was destroyed may have been made anew."""
    notes = facts.noted(Kind.GROUP)
    if not notes:
        return None
    newest = notes[-1]
    told = msgspec.json.decode(facts.recording.string(newest[f.R_A]) or "{}", type=_Group)
    return Group(
        at=facts.at(newest[f.R_START]),
        ended=facts.at(newest[f.R_START] + newest[f.R_DURATION]) if newest[f.R_B] else None,
        backend=told.backend or "",
        rank=told.rank,
        world=told.world,
        timeout=told.timeout,
        address=told.address or "",
        where=told.where,
        failed=newest[f.R_B] == FAILED,
        variables=told.variables,
    )


def spans(facts: Facts) -> list[Span]:
    """As far back as the ring goes, and those that it is in now."""
    rows: list[list[int]] = facts.recording.events(Kind.SPAN).tolist()
    found = [
        Span(
            at=facts.at(one[f.R_START]),
            ended=facts.at(one[f.R_START] + one[f.R_DURATION]),
            failed=bool(one[f.R_A]),
            **_named(facts.recording.string(one[f.R_KEY])),
        )
        for one in sorted(rows, key=lambda one: one[f.R_START])[-SPANS:]
    ]
    found += [
        Span(at=facts.at(one.since), **_named(facts.recording.string(one.key)))
        for one in facts.recording.board()
        if one.kind == Kind.SPAN and one.a
    ]
    return sorted(found, key=lambda one: one.at)


def _named(text: str) -> dict[str, Any]:
    name, *place = text.split("\n")
    if len(place) != 3 or not place[1].isdecimal():
        return {"name": name}
    return {"name": name, "where": Place(place[0], int(place[1]), place[2])}
