"""Writes the watcher's journal: one line at a time, nothing held back, bounded in size."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ..model.evidence import Exit, Sample
from ..model.journal import Begin, End, Gone, Line, Look

LIMIT = 1 << 20  # then the file is set aside, and the one set aside before is dropped


class Journal:
    """An append-only file. A write that fails is dropped: the disk may be full, and the run goes on."""

    def __init__(self, folder: Path, begin: Begin) -> None:
        self.path = folder / f"watch-{begin.node}.jsonl"
        self._head: list[Line] = [begin]
        self._fd = -1
        self._open()

    def _open(self) -> None:
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError:
            self._fd = -1
        for line in self._head:
            self._write(line)

    def look(self, sample: Sample) -> None:
        line = Look(sample)
        if len(self._head) == 1:
            self._head.append(line)  # what the counters stood at when the run began
        self._write(line)
        if self._fd >= 0 and os.fstat(self._fd).st_size > LIMIT:
            os.close(self._fd)
            self.path.replace(self.path.with_suffix(".old.jsonl"))
            self._open()

    def gone(self, seen: Exit) -> None:
        self._write(Gone(seen))

    def end(self, at: float) -> None:
        self._write(End(at))
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: Line) -> None:
        try:
            os.write(self._fd, msgspec.json.encode(line) + b"\n")
        except OSError:
            return
