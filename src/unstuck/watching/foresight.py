"""Looks ahead for a run that goes on: what will go wrong is told while there is time to do something about it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from ..report import Ahead
from ..wording.printable import quoted

AT = (8.0, 60.0, 300.0, 900.0, 3600.0)  # seconds for which its ranks got on: later, what is known hardly changes
STARTING = (20.0, 60.0, 300.0, 900.0, 3600.0)  # seconds after which a run without a first step is asked how far it is
LONGEST = 2.0  # seconds between two ticks that count


class Foresight:
    """Judges the recording now and then, in a process of its own. `say` is given each warning once."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._due = list(AT)
        self._starting = list(STARTING)
        self._wanted = False  # somebody waits to hear how far it is
        self._looking: subprocess.Popen[bytes] | None = None
        self._answer: IO[bytes] = io.BytesIO()
        self._told: set[str] = set()
        self._before = 0.0
        self._got_on = 0.0

    def tick(self, age: float, ranks: int, *, begun: bool) -> None:
        """`ranks` that get on, and whether one of them has come to its first step.

        What will go wrong is only asked where there are several: what one process does wrong shows by itself.
        """
        self._finish()
        passed, self._before = age - self._before, age
        if begun:
            self._starting.clear()
        elif ranks and self._looking is None and self._starting and age >= self._starting[0]:
            self._starting = [one for one in self._starting if one > age]
            self._wanted = True
            self._look()
        if ranks < 2:
            return
        self._got_on += min(passed, LONGEST)
        if self._looking is None and self._due and self._got_on >= self._due[0]:
            self._due = [one for one in self._due if one > self._got_on]
            self._look()

    def _look(self) -> None:
        command = [sys.executable, "-m", "unstuck.watching.foresight", str(self._folder)]
        try:
            self._answer = os.fdopen(os.memfd_create("foresight"), "w+b")
            self._looking = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._answer,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "UNSTUCK": "0", "PYTHONSAFEPATH": "1"},
                start_new_session=True,
            )
        except OSError:  # no descriptor, no process, no memory: the run goes on, and so does the watching
            return

    def _finish(self) -> None:
        if self._looking is None or self._looking.poll() is None:
            return
        self._answer.seek(0)
        said = self._answer.read()
        self.close()
        try:
            ahead = msgspec.json.decode(said, type=Ahead)
        except msgspec.DecodeError:  # it was killed, or the run has ended meanwhile
            return
        if self._wanted:
            self._wanted = False
            for told in ahead.start:
                self._say(told)
        for one in ahead.findings:
            if one.rule not in self._told:
                self._told.add(one.rule)
                self._say(f"{one.rule}: {one.cause} Fix: {one.remedy.text} (unstuck why {quoted(str(self._folder))})")

    def close(self) -> None:
        looking, self._looking = self._looking, None
        if looking is None:
            return
        if looking.poll() is None:
            os.killpg(looking.pid, 9)
            looking.wait()
        self._answer.close()


def main(folder: Path) -> int:
    from ..diagnose import foretold
    from ..errors import UserError

    try:
        ahead = foretold(folder)
    except UserError:
        return 2
    sys.stdout.buffer.write(msgspec.json.encode(ahead))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
