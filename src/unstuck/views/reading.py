"""How far a check is, on stderr while it reads: one line that moves, or a line now and then where none can."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable
from typing import IO

from ..evidence.data import NO_END, DataFile
from ..wording.text import duration, size

SHOW_AFTER = 2.0  # seconds: what is faster needs no line
EVERY, OFTEN = 10.0, 0.5  # seconds between two lines, and between two looks of one that moves
AT_ONCE = 1.0  # seconds in which comes what an earlier check had read: no rate
WINDOW = 20.0  # seconds over which the rate is taken: storage is faster and slower by turns


class Reading:
    """`with Reading(sys.stderr, files, size) as reading`: tell it what `moved`, and which file `ended`."""

    def __init__(self, stream: IO[str], files: int, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._files, self._size, self._clock = stream, files, size, clock
        self._moves = stream.isatty()
        self._began = self._said = clock()
        self._past = deque([(self._began, 0)])
        self._read = self._done = self._bad = 0
        self._drawn = False

    def __enter__(self) -> Reading:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def begins(self) -> None:
        """Whoever reads is there: what came before was no reading."""
        self._began = self._said = self._clock()
        self._past = deque([(self._began, self._read)])

    def moved(self, count: int) -> None:
        """So many bytes more."""
        self._read += count
        now = self._clock()
        if now - self._began <= AT_ONCE:
            self._past[0] = (now, self._read)
        if now - self._began >= SHOW_AFTER and now - self._said >= (OFTEN if self._moves else EVERY):
            self._said = now
            self._draw(self._line(now))

    def ended(self, file: DataFile) -> None:
        self._done += 1
        self._bad += any(one.kind != NO_END for one in file.faults)  # some writers never mark an end
        self.moved(0)

    def _line(self, now: float) -> str:
        """checking: 12 of 128 files, 6.4 GiB of 64 GiB, 530 MiB/s, 1 min 50 s left, 1 bad."""
        self._past.append((now, self._read))
        while now - self._past[1][0] > WINDOW:
            self._past.popleft()
        since, before = self._past[0]
        rate = (self._read - before) / max(now - since, 1e-6)
        parts = [f"{self._done:,} of {self._files:,} files", f"{size(self._read)} of {size(self._size)}"]
        parts.append(f"{size(rate)}/s" if rate >= 1 else f"nothing has come for {duration(now - since)}")
        if rate >= 1 and self._size > self._read:
            parts.append(f"{duration(max(round((self._size - self._read) / rate), 1))} left")
        return f"checking: {', '.join([*parts, *([f'{self._bad:,} bad'] if self._bad else [])])}"

    def _draw(self, text: str) -> None:
        if not self._moves:
            print(f"unstuck: {text}", file=self._stream, flush=True)
            return
        self._clear()
        self._stream.write(f"  {text}"[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False
