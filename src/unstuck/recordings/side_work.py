"""Side work of the main thread: calls by name and line, checkpoints, compiling, pauses of the collector, loggers."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..evidence.basics import Place, Timing
from ..evidence.loader import COLLECTION, Call, Compiled, Logger
from ..evidence.process import Saved, Saving
from ..inside import format as f
from ..inside.format import APART, GARBAGE, SAVED_ASIDE, SAVED_BITS, SAVED_HELD, SAVED_STEP, SAVERS, Kind
from .decoder import place_in
from .phases import passes
from .reader import Facts, Recording

LINE = (1 << SAVED_STEP) - 1  # above it, there may be a step
LATER = 60.0  # seconds: writing in the background begins long before, or belongs to another save


class Named(NamedTuple):
    """A call as its string tells it."""

    what: str
    name: str
    where: Place | None


def named(text: str) -> Named:
    what, _, rest = text.partition(APART)
    name, *place = rest.split(APART)
    return Named(what, name, place_in(place))


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


def collecting(facts: Facts) -> Timing:
    """Of all since the training began. Where something was compiled, as far back as the ring has them."""
    keys = [key for kind, key in facts.totals if kind == Kind.CALL and _is_collection(facts, key)]
    if not keys or not passes(facts):
        return Timing()
    total, compiled = facts.timing(Kind.CALL, keys[0]), facts.noted(Kind.COMPILED)
    if not compiled:
        return total
    begun = max(one[f.R_START] + one[f.R_DURATION] for one in compiled)
    rows = facts.recording.events(Kind.CALL, keys[0])
    took = rows[rows[:, f.R_START] >= begun, f.R_DURATION].astype(np.int64)
    if not len(took):
        return Timing()
    longest, p50 = float(took.max()) / 1e9, float(np.median(took)) / 1e9
    return Timing(len(took), float(took.sum()) / 1e9, longest, p50)


def _is_collection(facts: Facts, key: int) -> bool:
    """A pause of the collector itself, whoever asked for it."""
    found = named(facts.recording.string(key))
    return found.what == COLLECTION and found.name == GARBAGE


def compiled(facts: Facts) -> list[Compiled]:
    """In the order of time, each with how often its function had been compiled by then."""
    found, counts = [], dict[Place, int]()
    for one in facts.noted(Kind.COMPILED):
        known = facts.recording.told(one[f.R_A])
        function = {name: known[name] for name in ("file", "line", "function") if name in known}
        where = msgspec.convert({"file": "", **function}, Place)
        counts[where] = counts.get(where, 0) + 1
        told = {name: known[name] for name in ("reason", "limited") if name in known}
        times = {"at": facts.at(one[f.R_START]), "seconds": one[f.R_DURATION] / 1e9}
        found.append(msgspec.convert({**told, **times, "where": where, "count": counts[where]}, Compiled))
    return found


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


def saved(facts: Facts) -> list[Saved]:
    """As far back as notes and ring go, oldest first."""
    found = [_saved(facts, one) for one in facts.rows(Kind.SAVE)]
    found += [_save_failed(facts, one) for one in facts.noted(Kind.SAVE_FAILED)]
    return _joined(sorted(found, key=lambda one: one.at))


def saving(facts: Facts, known: list[Saved]) -> list[Saving]:
    """What is on the board."""
    found = []
    for one in facts.board:
        if one.kind == Kind.SAVE and one.a:
            where = place_of(facts.recording, one.b)
            before = [each.size for each in known if each.where == where and each.size]
            expected = before[-1] if before and where is not None else None
            found.append(Saving(one.text, facts.at(one.a), bool(one.key), where, expected=expected))
    return found


def holds_up(how: int) -> bool:
    """The training stood still for this record of a save: it was not only written in the background."""
    return not how & SAVED_ASIDE or bool(how & SAVED_HELD)


def saver(how: int) -> str:
    """What saved it."""
    return (*SAVERS, SAVERS[0])[how & 3]


def _saved(facts: Facts, row: list[int]) -> Saved:
    how, seconds = row[f.R_A], row[f.R_DURATION] / 1e9
    waits = holds_up(how)
    return Saved(
        path=facts.recording.string(row[f.R_KEY]),
        at=facts.exactly(row[f.R_START]),
        seconds=seconds if waits else 0.0,
        size=row[f.R_B] - 1 if row[f.R_B] else None,
        how=_how_saved(how),
        background=bool(how & SAVED_ASIDE),
        writing=None if waits else seconds,
        where=place_of(facts.recording, row[f.R_C]),
        inode=how >> SAVED_BITS,
        step=row[f.R_C] >> SAVED_STEP,
    )


def _save_failed(facts: Facts, row: list[int]) -> Saved:
    known = facts.recording.told(row[f.R_A]) or {"failed": "an exception"}
    aside, seconds = bool(row[f.R_B] & SAVED_ASIDE), row[f.R_DURATION] / 1e9
    fields = {
        "path": facts.recording.string(row[f.R_KEY]),
        "at": facts.exactly(row[f.R_START]),
        "seconds": 0.0 if aside else seconds,
        "how": _how_saved(row[f.R_B]),
        "background": aside,
        "writing": seconds if aside else None,
        "where": place_of(facts.recording, row[f.R_C]),
    }
    return msgspec.convert({**fields, **known}, Saved)


def _joined(found: list[Saved]) -> list[Saved]:
    """How long the training was held up, and the writing in the background that followed, are one save."""
    joined: list[Saved] = []
    for one in found:
        at = next((at for at in range(len(joined) - 1, -1, -1) if _is_written_by(joined[at], one)), None)
        if at is None:
            joined.append(one)
        else:
            begun = joined[at]
            joined[at] = msgspec.structs.replace(
                one, at=begun.at, seconds=begun.seconds, where=begun.where, step=begun.step
            )
    return joined


def _is_written_by(begun: Saved, one: Saved) -> bool:
    waits = begun.background and begun.writing is None and not begun.failed
    return waits and one.background and one.writing is not None and begun.path == one.path and one.at - begun.at < LATER


def _how_saved(bits: int) -> str:
    return ("", "together", "safetensors", "")[bits & 3]


def place_of(recording: Recording, number: int) -> Place | None:
    return place_in(recording.string(number & LINE).split(APART))
