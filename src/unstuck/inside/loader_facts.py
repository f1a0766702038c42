"""What the main process tells of a loader once a pass: its dataset's numbers, what workers are sent, how passes end."""

from __future__ import annotations

import json
from typing import Any

from . import buckets, sampling
from .dataset_state import numbers
from .describe import start_method
from .format import Kind
from .holdings import attributes_of
from .recorder import Recorder, clock

STATES = 64
PASSES, CHANGES = 16, 240  # ends of passes that are told: the first, and those that differ from the one before
SELDOM = 1_000_000_000  # nanoseconds between two beginnings that are noted: nobody's epoch is so short


class LoaderFacts:
    """Of one loader."""

    __slots__ = ("begun", "changes", "last", "number", "states", "told", "written")

    def __init__(self, number: int) -> None:
        self.number = number
        self.told = ""
        self.states = self.changes = self.begun = 0
        self.last = -1
        self.written: int | None = None  # bytes this process had written before workers were started

    def pass_begins(self, recorder: Recorder, loader: Any, passes: int) -> None:
        own = attributes_of(loader)
        self.written = _written() if own.get("num_workers") and start_method(own) in ("spawn", "forkserver") else None
        text = json.dumps({"numbers": numbers(own.get("dataset"))}, ensure_ascii=False)
        if text != self.told and self.states < STATES:
            self.told = text
            self.states += 1
            recorder.note(Kind.STATE, self.number, clock(), 0, passes, 0, recorder.intern(text))
        sampling.pass_begins(recorder, self.number, own, passes)
        buckets.pass_begins(recorder, self.number, own.get("dataset"))

    def workers_started(self, recorder: Recorder) -> None:
        now = _written() if self.written is not None else None
        if now is not None and self.written is not None:
            recorder.note(Kind.SENT, self.number, clock(), 0, now - self.written)

    def pass_begun(self, recorder: Recorder, start: int, number: int, workers: int, before: int) -> None:
        """The ring has it too, but not for long: of a long epoch it has no beginning any more."""
        if number <= PASSES or start - self.begun > SELDOM:
            self.begun = start
            recorder.note(Kind.ITERATOR, self.number, start, 0, number, workers, before)

    def pass_ends(self, recorder: Recorder, number: int, batches: int, now: int, steps: int) -> None:
        changed = batches != self.last and self.changes < CHANGES
        self.last = batches
        if number <= PASSES or changed:
            self.changes += number > PASSES
            recorder.note(Kind.PASS_END, self.number, now, 0, batches, number, steps)


def _written() -> int | None:
    """Bytes that this process has written so far, into whatever it was."""
    try:
        with open("/proc/self/io", "rb") as file:
            return int(file.read().split(b"wchar: ", 1)[1].split(None, 1)[0])
    except (OSError, ValueError, IndexError):
        return None
