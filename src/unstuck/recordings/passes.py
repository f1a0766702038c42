"""Every pass over a loader that a recording still knows of: when it began and ended, batches, optimizer steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..inside import format as f
from ..inside.format import MODE_BITS, Kind
from .decoder import LOADER_KINDS, Entry
from .reader import Recording

NOTED = 16  # passes of a loader whose end is among the notes, however long ago it was


class Recorded(Protocol):
    """A recording with its notes and its board."""

    recording: Recording
    board: list[Entry]

    def noted(self, kind: int, key: int | None = None) -> list[list[int]]: ...


@dataclass
class PassSeen:
    """One pass. Times are the recording's own."""

    loader: int
    number: int
    begun: int
    modes: int = 0
    before: int = 0  # optimizer steps of the loader
    ended: int | None = None  # None: it goes on
    batches: int = 0
    steps: int = 0
    left: bool = False


def passes(facts: Recorded) -> list[PassSeen]:
    """In the order of their beginning."""
    loaders = {entry.key: entry for entry in facts.board if entry.kind in LOADER_KINDS}
    found = [one for number, entry in loaders.items() for one in _of_loader(facts, number, entry)]
    return sorted(found, key=lambda one: one.begun)


def rows(facts: Recorded, kind: int, key: int | None = None) -> list[list[int]]:
    """Notes and frequent events of a kind, in the order of time. What is among both comes twice."""
    ring: list[list[int]] = facts.recording.events(kind, key).tolist()
    return sorted(facts.noted(kind, key) + ring, key=lambda one: one[f.R_START])


def _of_loader(facts: Recorded, number: int, board: Entry) -> list[PassSeen]:
    begun = {
        one[f.R_A]: PassSeen(
            number, one[f.R_A], one[f.R_START], one[f.R_C] & (1 << MODE_BITS) - 1, one[f.R_C] >> MODE_BITS
        )
        for one in rows(facts, Kind.ITERATOR, number)
    }
    if board.b and board.b not in begun:  # its iterator is being made, or was there before anybody recorded
        since = board.since if board.kind == Kind.ITERATOR else facts.recording.header[f.H_MONOTONIC]
        begun[board.b] = PassSeen(number, board.b, since, before=board.d if board.kind == Kind.ITERATOR else 0)
    found = [begun[one] for one in sorted(begun)]
    ends = {one[f.R_B]: one for one in rows(facts, Kind.PASS_END, number)}
    # The first counts: a framework says that it leaves a pass, and its workers end when they end.
    shut = {one[f.R_A]: one[f.R_START] for one in reversed(rows(facts, Kind.SHUTDOWN, number))}
    batches = _batches(facts, number) if any(one.number not in ends for one in found[:-1]) else {}
    for one, following in zip(found, [*found[1:], None], strict=True):
        end = ends.get(one.number)
        if end is not None:
            one.ended, one.batches = end[f.R_START] + end[f.R_DURATION], end[f.R_A]
            one.steps = max(end[f.R_C] - one.before, 0)
        elif following is not None:
            _was_left(one, following, shut.get(one.number), batches.get(one.number, 0))
        else:
            one.batches, one.steps = board.a, max(board.d - one.before, 0)
            one.ended = shut.get(one.number)
            one.left = one.ended is not None
    return found


def _batches(facts: Recorded, loader: int) -> dict[int, int]:
    """By pass, as far back as the ring goes."""
    waits = facts.recording.events(Kind.WAIT, loader)
    found: dict[int, int] = {}
    for number, batch in waits[:, [f.R_B, f.R_A]].tolist():
        found[number] = max(found.get(number, 0), batch + 1)
    return found


def _was_left(one: PassSeen, following: PassSeen, shut: int | None, batches: int) -> None:
    """Its workers were ended, or the loader was used anew. Of a pass long ago nobody knows whether it was left."""
    one.ended, one.batches = shut or following.begun, batches
    one.steps = max(following.before - one.before, 0) if following.number == one.number + 1 else 0
    one.left = bool(batches) or one.number <= NOTED
