"""Keeps what fails in us away from the run: one line, the traceback in the run folder, and the watcher goes on.

Every part of the watcher runs inside this fence, and the watcher itself runs in a process of its own: the parent of the
user's command only waits, passes signals and gives back the command's exit code.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from ..inside.redaction import redacted
from ..safe_files import append_private
from ..wording.language import word
from ..wording.printable import printable, quoted

ERRORS = "errors.log"  # in the run folder
TRIES = 5  # a full disk or a lack of descriptors may pass; what fails that often will fail again
LONGEST = 200  # characters of an error's message
PATIENCE = 2000  # milliseconds for a reader of stderr to make room

P = ParamSpec("P")
T = TypeVar("T")


class Fence:
    """Around the parts of one watcher. `say` is given one line for each part that has failed."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._file = folder / ERRORS
        self._say = say
        self._failed: Counter[str] = Counter()

    def run(self, part: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What it gives back. None: it failed, now or too often before."""
        if self._failed[part] >= TRIES:
            return None
        try:
            return work(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is not the run's business)
            self._note(part, error)
            return None

    def failed(self, part: str) -> bool:
        return self._failed[part] > 0

    def _note(self, part: str, error: Exception) -> None:
        self._failed[part] += 1
        with contextlib.suppress(OSError):
            self._keep(part, error)
        if self._failed[part] == 1:
            what = f"{type(error).__name__}: {redacted(str(error))}"[:LONGEST]
            self._say(f"{part} failed ({what}); the command is unaffected; details in {quoted(str(self._file))}")

    def _keep(self, part: str, error: Exception) -> None:
        text = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {part}\n{''.join(traceback.format_exception(error))}\n"
        fd = append_private(self._file)
        try:
            os.write(fd, redacted(text).encode("utf-8", "replace"))
        finally:
            os.close(fd)


def speak(line: str, prefix: str = "[unstuck] ") -> None:
    """One line on stderr, if anybody can hear it: a closed stream or a reader that is gone is no reason to stop."""
    if sys.stderr is None:  # print would take stdout instead, which is the command's
        return
    try:
        if _has_room(sys.stderr.fileno()):
            print(f"{prefix}{printable(redacted(word(line)))}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        go_silent()


def _has_room(fd: int) -> bool:
    """A pipe that is full and that nobody reads would hold us for as long as it stays so."""
    waiting = select.poll()
    waiting.register(fd, select.POLLOUT)
    return bool(waiting.poll(PATIENCE))


def go_silent() -> None:
    """Nobody reads our stderr any more. Python would end with another exit code for what it could not flush."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, 2)
        os.close(null)
