"""Side work of the main thread, by name and by the user's line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..evidence.basics import Place
from ..evidence.loader import Call
from ..inside import format as f
from ..inside.format import APART, Kind
from .reader import Facts


class Named(NamedTuple):
    """A call as its string tells it."""

    what: str
    name: str
    where: Place | None


def named(text: str) -> Named:
    what, _, rest = text.partition(APART)
    name, *place = rest.split(APART)
    found = Place(place[0], int(place[1]), place[2]) if len(place) == 3 and place[1].isdecimal() else None
    return Named(what, name, found)


def calls(facts: Facts) -> list[Call]:
    """All lines that ever called, the most costly first."""
    rows = facts.recording.events(Kind.CALL)
    times: dict[int, tuple[int, int]] = {}
    for key in np.unique(rows[:, f.R_KEY]).tolist():
        mine = rows[rows[:, f.R_KEY] == key]
        times[key] = int(mine[:, f.R_START].min()), int((mine[:, f.R_START] + mine[:, f.R_DURATION]).max())
    found = [_call(facts, key, times) for kind, key in facts.totals if kind == Kind.CALL]
    found += _never_ended(facts, {key for kind, key in facts.totals if kind == Kind.CALL})
    return sorted(
        (one for one in found if one.timing.count or one.since is not None), key=lambda one: -one.timing.total
    )


def _call(facts: Facts, key: int, times: dict[int, tuple[int, int]]) -> Call:
    what, name, where = named(facts.recording.string(key))
    notes = facts.noted(Kind.CALL, key)
    first, last = times.get(key, (0, 0))
    first = min((one[f.R_START] for one in notes), default=first)
    return Call(
        what=what,
        name=name,
        where=where,
        timing=facts.timing(Kind.CALL, key),
        failed=sum(one[f.R_A] for one in notes),
        said=next((facts.recording.string(one[f.R_B]) for one in reversed(notes) if one[f.R_A]), ""),
        at=facts.at(first) if first else 0.0,
        last=facts.at(last) if last else 0.0,
        since=_open(facts).get(key),
    )


def _never_ended(facts: Facts, known: set[int]) -> list[Call]:
    """One that goes on, and is the first of its line, has no totals yet."""
    return [_call(facts, key, {}) for key in _open(facts) if key not in known]


def _open(facts: Facts) -> dict[int, float]:
    return {one.key: facts.at(one.since) for one in facts.board if one.kind == Kind.CALL and one.a}
