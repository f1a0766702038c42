"""What is shown on stderr while a command works: one line that moves, or a line now and then where none can."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Protocol

from rich.console import Console
from rich.status import Status
from rich.text import Text

from ..evidence.data import NO_END, DataFile
from ..evidence.trial import Rung
from ..inside.redaction import redacted
from ..wording.language import word
from ..wording.printable import printable
from ..wording.text import duration, size
from .trials import MARKS

SHOW_AFTER = 2.0  # seconds: what is faster needs no line
EVERY, OFTEN = 10.0, 0.5  # seconds between two lines, and between two looks of one that moves
AT_ONCE = 1.0  # seconds in which comes what an earlier check had read: no rate
LONGEST = 110  # characters of a reason while climbing; the table has all of it
WIDTH = 99  # characters of a line that moves while climbing
WINDOW = 20.0  # seconds over which the rate is taken: storage is faster and slower by turns


class Reading:
    """`with Reading(sys.stderr, files, size) as reading`: tell it what `moved`, and which file `ended`."""

    def __init__(self, stream: IO[str], files: int, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._files, self._size, self._clock = stream, files, size, clock
        self._moves = stream.isatty()
        self._began = self._said = clock()
        self._past = deque([(self._began, 0)])
        self._read = self._done = self._bad = 0
        self._line = _Line(stream)

    def __enter__(self) -> Reading:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self._line.clear()

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
            self._show(self._words(now))

    def ended(self, file: DataFile) -> None:
        self._done += 1
        self._bad += any(one.kind != NO_END for one in file.faults)  # some writers never mark an end
        self.moved(0)

    def _words(self, now: float) -> str:
        """checking: 12 of 128 files, 6.4 GiB of 64 GiB, 530 MiB/s, 1 min 50 s left, 1 bad."""
        self._past.append((now, self._read))
        while now - self._past[1][0] > WINDOW:
            self._past.popleft()
        since, before = self._past[0]
        rate = (self._read - before) / max(now - since, 1e-6)
        of = word("of")
        parts = [f"{self._done:,} {of} {self._files:,} {word('files')}", f"{size(self._read)} {of} {size(self._size)}"]
        parts.append(f"{size(rate)}/s" if rate >= 1 else word(f"no data for {duration(now - since)}"))
        if rate >= 1 and self._size > self._read:
            parts.append(word(f"{duration(max(round((self._size - self._read) / rate), 1))} left"))
        return f"{word('checking')}: {', '.join([*parts, *([word(f'{self._bad:,} bad')] if self._bad else [])])}"

    def _show(self, text: str) -> None:
        if self._moves:
            self._line.draw(_cut(f"  {text}", shutil.get_terminal_size().columns - 1))
        else:
            print(f"unstuck: {text}", file=self._stream, flush=True)


def _cut(text: str, width: int) -> str:
    """To so many columns; some characters take two."""
    cut = Text(text)
    cut.truncate(width)
    return cut.plain


class Step(Protocol):
    """What a rung is called."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...


class Climbing:
    """On stderr: one line that moves while a step is tried, and one for each that has ended."""

    def __init__(self, stream: IO[str], steps: Sequence[Step]) -> None:
        self._stream = stream
        self._width = max(len(one.name) for one in steps)
        self._moves = stream.isatty()
        self._said = 0.0
        self._line = _Line(stream)

    def __enter__(self) -> Climbing:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self._line.clear()

    def begins(self, step: Step) -> None:
        self._said = 0.0
        if self._moves:
            self._line.draw(_cut(f"  …      {step.name:<{self._width}}  {word(step.title)}", WIDTH))

    def goes_on(self, step: Step, seconds: float) -> None:
        if seconds < SHOW_AFTER or time.monotonic() - self._said < (OFTEN if self._moves else EVERY):
            return
        first, self._said = not self._said, time.monotonic()
        text = f"  …      {step.name:<{self._width}}  {word(step.title)}, {seconds:.0f} s"
        if self._moves:
            self._line.draw(_cut(text, WIDTH))
        elif not first:
            print(text, file=self._stream, flush=True)

    def ended(self, rung: Rung) -> None:
        self._line.clear()
        mark, _ = MARKS[rung.status]
        took = duration(rung.seconds) if rung.seconds else ""
        reason = printable(redacted(rung.reason))
        reason = reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 1]}…"
        print(f"  {mark} {rung.name:<{self._width}}  {took:>7}  {reason}", file=self._stream, flush=True)


class Progress:
    """Call it with what is going on. The line is gone when the work is."""

    def __enter__(self) -> Progress:  # noqa: PYI034  (Self is not in Python 3.10)
        console = Console(stderr=True, highlight=False, emoji=False)
        self._status: Status | None = console.status("", spinner="dots") if console.is_terminal else None
        if self._status is not None:
            self._status.start()
        return self

    def __call__(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(printable(word(text))))
        elif "to tell stuck from slow" in text:  # the one wait that a script's log should explain
            print(f"unstuck: {printable(word(text))}", file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()


class _Line:
    """One line on a terminal that is written over."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._drawn = stream, False

    def draw(self, text: str) -> None:
        self.clear()
        self._stream.write(text)
        self._stream.flush()
        self._drawn = True

    def clear(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False
