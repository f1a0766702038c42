"""Reads what the recorded processes are doing now, often and at next to no cost: a few words of each recording.

Every look may raise OSError or ValueError: the file is gone, or is no longer what it was.
"""

from __future__ import annotations

from pathlib import Path

from ..inside import format as f
from ..inside.format import Kind
from .decoder import GUARDS, LOADER_KINDS, OpenRecording, quantile

START = f.H_FIRST_SAMPLE + 1 - f.H_IMPORTED  # words of the header that change until the first sample is there
BESIDE = (0, Kind.SAVE, Kind.COMPILED, Kind.CALL)  # what comes now and then, whatever the loop does
USUAL = 0.99  # of all times lie below what is usual


class Board(OpenRecording):
    """One process's recording, held open."""

    path: Path

    def __init__(self, path: Path) -> None:
        """Raises OSError or ValueError where there is nothing to read yet."""
        super().__init__(path)
        self.pid, self.parent = self.header[f.H_PID], self.header[f.H_PARENT]

    def role(self) -> int:
        """It may show only after the recording was opened."""
        return self.word(f.H_ROLE)

    def rank(self) -> int | None:
        rank = self.word(f.H_RANK)
        return rank - 1 if rank else None

    def signature(self) -> bytes:
        """Changes whenever anything happens: a batch, a sample, a stage, a step, a parameter, a word of the user's."""
        data = self.part(f.S_BOARD, 0, self.entries_in_use() * f.BOARD_ENTRY)
        guards = [data[at : at + GUARDS] for at in range(0, len(data), f.BOARD_ENTRY)]
        return b"".join(guards) + self.words(f.H_STEPS, 2) + self.words(f.H_IMPORTED, START)

    def begun(self) -> bool:
        """It has made a step, or a loader of its has given two batches that it does not pass over."""
        if self.word(f.H_STEPS):
            return True
        board = self.board()
        passed_over = {one.key: one.b for one in board if one.kind == Kind.SKIPPING}
        return any(one.c > 1 + passed_over.get(one.key, 0) for one in board if one.kind in LOADER_KINDS)

    def tells_progress(self) -> bool:
        """It has made a step, or shows anything that changes with progress: a loader, a stage, words of the user's."""
        return bool(self.word(f.H_STEPS)) or any(one.kind not in BESIDE for one in self.board())

    def newest(self) -> tuple[int, int, int]:
        """Kind, key and time since when of what the process turned to last. Kind 0: nothing yet."""
        entries = [(one.kind, one.key, one.since) for one in self.board()]
        return max(entries, key=lambda one: one[2], default=(0, 0, 0))

    def usual(self, kind: int, key: int) -> float | None:
        """What this normally takes at the most, in seconds: its 99th percentile. None: it was never done."""
        total = self.totals().get((kind, key))
        if total is None or not any(total[2:]):
            return None
        return quantile(total[2:], USUAL, total[1])
