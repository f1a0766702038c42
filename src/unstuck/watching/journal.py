"""Writes the watcher's journal: one line at a time, nothing held back, bounded in size."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ..evidence import Exit, Glance, Sample, Told
from ..evidence.journal import Begin, End, Glanced, Gone, Heard, Line, Look
from ..evidence.live import Frame
from ..safe_files import append_private, read_plain, write_private

LIMIT = 1 << 20  # then the file is set aside, with what was set aside before, and every second look is dropped
LOOK = msgspec.json.encode(Look(Sample(at=0.0)))[:14]  # how the line of a look begins


class Journal:
    """An append-only file. A write that fails is dropped: the disk may be full, and the run goes on."""

    def __init__(self, folder: Path, begin: Begin) -> None:
        self.path = folder / f"watch-{begin.node}.jsonl"
        self._head: list[Line] = [begin]
        self._fd = -1
        self._open()

    def _open(self) -> None:
        try:
            self._fd = append_private(self.path)
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
            self._set_aside()
            self._open()

    def _set_aside(self) -> None:
        """The older, the fewer: hours of a run stay in sight, and the file stays as small."""
        old = self.path.with_suffix(".old.jsonl")
        lines = [
            line for path in (old, self.path) if path.exists() for line in read_plain(path).splitlines(keepends=True)
        ]
        looks = [number for number, line in enumerate(lines) if line.startswith(LOOK)]
        dropped = set(looks[1::2])
        try:
            write_private(old, b"".join(line for number, line in enumerate(lines) if number not in dropped))
            self.path.unlink()
        except OSError:  # a full disk: as much is written as has room
            return

    def glance(self, about: Glance, frames: list[Frame]) -> None:
        self._write(Glanced(msgspec.structs.replace(about, frames=frames)))

    def gone(self, seen: Exit) -> None:
        self._write(Gone(seen))

    def heard(self, told: Told) -> None:
        self._write(Heard(told))

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
