"""The item that took longest in each stage so far. A new one is remembered at once, and written down ever more seldom.

A worker has few notes: one that got slower and slower must not push out all the others.
"""

from __future__ import annotations

from .format import Kind
from .process import process
from .recorder import Recorder

SOON = 500_000_000  # nanoseconds until the next may be written down; then twice as long each time
STAGES = 16  # that are kept apart


class Slowest:
    """Of one recording."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.known: dict[str, tuple[int, int, str, int]] = {}  # stage: begun, duration, item, index plus one
        self.due: dict[str, tuple[int, int]] = {}  # stage: when the next may be written, how long it is until then
        process.remembered.append(self.flush)

    def seen(self, stage: str, begun: int, duration: int, item: str, index: int) -> None:
        """It took longer than all before it."""
        if stage not in self.due:
            if len(self.due) >= STAGES:
                return
            self.due[stage] = (0, SOON)
        self.known[stage] = (begun, duration, item, index + 1)
        due, patience = self.due[stage]
        if begun + duration >= due:
            self.due[stage] = (begun + duration + patience, 2 * patience)
            self._write(stage)

    def flush(self) -> None:
        for stage in list(self.known):
            self._write(stage)

    def _write(self, stage: str) -> None:
        begun, duration, item, index = self.known.pop(stage)
        recorder = self.recorder
        text = recorder.intern(item) if item else 0
        recorder.note(Kind.SLOWEST, recorder.intern(stage), begun, duration, text, index)


def seen(recorder: Recorder, stage: str, begun: int, duration: int, item: str = "", index: int = -1) -> None:
    if not _known or _known[-1].recorder is not recorder:
        _known[:] = [Slowest(recorder)]
    _known[-1].seen(stage, begun, duration, item, index)


_known: list[Slowest] = []
