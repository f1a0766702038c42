"""What a process saved, tried to save, and saves at this moment."""

from __future__ import annotations

import msgspec

from ..evidence.basics import Place
from ..evidence.process import Saved, Saving
from ..inside import format as f
from ..inside.format import APART, SAVED_ASIDE, SAVED_BITS, SAVED_HELD, SAVED_STEP, SAVERS, Kind
from .reader import Facts, Recording

LINE = (1 << SAVED_STEP) - 1  # above it, there may be a step
LATER = 60.0  # seconds: writing in the background begins long before, or belongs to another save


def saved(facts: Facts) -> list[Saved]:
    """As far back as notes and ring go, oldest first."""
    found = [_saved(facts, one) for one in facts.rows(Kind.SAVE)]
    found += [_failed(facts, one) for one in facts.noted(Kind.SAVE_FAILED)]
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
        at=facts.at(row[f.R_START]),
        seconds=seconds if waits else 0.0,
        size=row[f.R_B] - 1 if row[f.R_B] else None,
        how=_how(how),
        background=bool(how & SAVED_ASIDE),
        writing=None if waits else seconds,
        where=place_of(facts.recording, row[f.R_C]),
        inode=how >> SAVED_BITS,
        step=row[f.R_C] >> SAVED_STEP,
    )


def _failed(facts: Facts, row: list[int]) -> Saved:
    known = facts.recording.told(row[f.R_A]) or {"failed": "an exception"}
    aside, seconds = bool(row[f.R_B] & SAVED_ASIDE), row[f.R_DURATION] / 1e9
    fields = {
        "path": facts.recording.string(row[f.R_KEY]),
        "at": facts.at(row[f.R_START]),
        "seconds": 0.0 if aside else seconds,
        "how": _how(row[f.R_B]),
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


def _how(bits: int) -> str:
    return ("", "together", "safetensors", "")[bits & 3]


def place_of(recording: Recording, number: int) -> Place | None:
    parts = recording.string(number & LINE).split(APART)
    return Place(parts[0], int(parts[1]), parts[2]) if len(parts) == 3 and parts[1].isdecimal() else None
