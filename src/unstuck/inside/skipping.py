"""Batches that a resumed training passes over, because they were trained on before: how many, of how many, who does it.

They come from the loader like all others and go nowhere.
"""

from __future__ import annotations

from .format import SKIPPED_BITS, SKIPPED_BY_LOADER, SKIPPED_ONE_BY_ONE, Kind
from .recorder import Recorder, clock


class Skipped:
    """What is passed over of one loader."""

    __slots__ = ("count", "how", "number", "of", "recorder", "since", "slot", "who")

    def __init__(self, recorder: Recorder, number: int, who: str, of: int, how: int) -> None:
        self.recorder, self.number, self.of, self.how = recorder, number, of, how
        self.who = recorder.intern(who)
        self.slot = recorder.board_slot(Kind.SKIPPING, number)
        self.since = clock()
        self.count = 0
        recorder.note(Kind.SKIPPING, number, self.since, 0, of, self.who)

    def show(self) -> None:
        lasts = (clock() - self.since) << SKIPPED_BITS | self.how
        self.recorder.board(self.slot, Kind.SKIPPING, self.number, self.since, self.count, self.of, self.who, lasts)


def begins(recorder: Recorder, number: int, who: str, of: int) -> None:
    """The first `of` batches of the pass that begins now are passed over."""
    _open[number] = Skipped(recorder, number, who, of, SKIPPED_BY_LOADER)
    _open[number].show()


def one_more(recorder: Recorder, number: int, who: str, of: int) -> None:
    """One more is asked for, only to be thrown away, while the iterator is being made. `of` counts the first time."""
    found = _open.get(number)
    if found is None or found.recorder is not recorder or found.how != SKIPPED_ONE_BY_ONE:
        found = _open[number] = Skipped(recorder, number, who, of, SKIPPED_ONE_BY_ONE)
    found.show()
    found.count += 1


def iterator_made(recorder: Recorder, number: int) -> None:
    found = _open.get(number)
    if found is not None and found.how == SKIPPED_ONE_BY_ONE:
        done(recorder, number)


def done(recorder: Recorder, number: int) -> None:
    found = _open.pop(number, None)
    if found is not None and found.recorder is recorder:
        found.how = 0
        found.show()


_open: dict[int, Skipped] = {}
