"""How long it takes a loader to end its workers, while an epoch ends or an iterator is thrown away."""

from __future__ import annotations

from typing import Any, NamedTuple

from .cursors import Cursor
from .format import Kind
from .loaders import Entry
from .process import process
from .recorder import Recorder, clock


class Shutdown(NamedTuple):
    """One that is going on."""

    entry: Entry
    recorder: Recorder
    started: int
    version: int  # of the board entry that says so
    number: int  # of the pass; 0: it goes on without them
    workers: int


def begins(iterator: Any) -> Shutdown | None:
    cursor: Cursor | None = iterator._unstuck
    if cursor is None or cursor.recorder is not process.recorder:  # a fork's copy of its parent's iterator
        return None
    entry, recorder, now = cursor.entry, cursor.recorder, clock()
    entry.show(Kind.SHUTDOWN, now, cursor.batch)
    workers = len(getattr(iterator, "_workers", ()))
    number = 0 if entry.handed_on and _is_exhausted(iterator) else cursor.number
    return Shutdown(entry, recorder, now, recorder.words[entry.live], number, workers)


def _is_exhausted(iterator: Any) -> bool:
    """All batches it asked for have come: it ends by itself, and what is handed on is still to be used."""
    return bool(getattr(iterator, "_rcvd_idx", 0) >= getattr(iterator, "_send_idx", 0))


def ends(shutdown: Shutdown) -> None:
    """What the board said before is true again: of an iterator that is thrown away, a newer one may be in use."""
    entry, recorder, started = shutdown.entry, shutdown.recorder, shutdown.started
    took = clock() - started
    recorder.board_back(entry.slot, shutdown.version)
    recorder.total(recorder.total_slot(Kind.SHUTDOWN, entry.number), took)
    recorder.event(Kind.SHUTDOWN, entry.number, started, took, shutdown.number, shutdown.workers)
