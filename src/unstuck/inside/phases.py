"""What the user says that the training does now. Kept among the notes: there are few, and they outlive the steps."""

from __future__ import annotations

from typing import NamedTuple

from .format import H_ROLE, ROLE_WORKER, Kind
from .recorder import Recorder, clock
from .redaction import redacted

NOTED = 500  # phases that outlive the ring; one that says so with every step must not push out the other notes
LONGEST = 80  # characters of a name


class Said(NamedTuple):
    """A phase that goes on."""

    key: int
    number: int  # how often this name came before
    start: int


class _Count:
    """How often each name came, and phases in all, in the recording they were written into."""

    __slots__ = ("all", "by_key", "recorder")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.all = 0
        self.by_key: dict[int, int] = {}


def begins(recorder: Recorder, name: str) -> Said | None:
    """None in a worker: what a loader's worker does is no phase of the training."""
    if recorder.words[H_ROLE] == ROLE_WORKER:
        return None
    now = clock()
    if count.recorder is not recorder:
        count.recorder, count.all, count.by_key = recorder, 0, {}
    key = recorder.intern(redacted(str(name))[:LONGEST])
    said = Said(key, count.by_key.get(key, 0), now)
    count.by_key[key] = said.number + 1
    count.all += 1
    _write(recorder, said, 0, 1)
    recorder.board(recorder.board_slot(Kind.PHASE, key), Kind.PHASE, key, now, 1, said.number)
    recorder.cost(clock() - now)
    return said


def ends(recorder: Recorder, said: Said) -> None:
    now = clock()
    _write(recorder, said, now - said.start, 0)
    recorder.board(recorder.board_slot(Kind.PHASE, said.key), Kind.PHASE, said.key, now, 0, said.number)
    recorder.cost(clock() - now)


def _write(recorder: Recorder, said: Said, duration: int, lasts: int) -> None:
    write = recorder.note if count.all <= NOTED else recorder.event
    write(Kind.PHASE, said.key, said.start, duration, lasts, said.number)


count = _Count()
