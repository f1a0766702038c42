"""Starts the process that speaks to Ray, talks with it, and sees that nothing of it is left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path

import psutil

from ...errors import UserError
from ...wording.printable import shortened
from ..workers import ROOT
from .words import Errand, Refused, Said, encode, said_in

JOINING = 60.0  # seconds; Ray's client gives up after 30 by itself, and the rest of Ray not within 120
GRACE = 10.0  # seconds for leaving the cluster; then the process is gone
START = "import sys; sys.path.append(sys.argv.pop(1)); from unstuck.checking.errands.driving import main; main()"
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run`, all of the folder we stand in would go to the cluster
    "RAY_ENABLE_AUTO_CONNECT": "0",  # whoever has lost a cluster would look for another, or start one
}
STAMP = re.compile(r"^\[[^\]]*\] (\S+: )?")  # of a line in Ray's log
AGAIN = "look at it with `ray status`, and go on with --resume"
LONGEST = 20  # characters of the folder for temporary ones: below it Ray makes sockets, whose names end at 107


class Driver:
    """`where`: see `joining.place`. `patience`: seconds until its first task must have run."""

    def __init__(self, where: str, patience: float) -> None:
        base = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="unstuck-ray-", dir=base if len(base) <= LONGEST else "/tmp")
        self._log = Path(self._folder, "driver.log")
        self._heard = False
        self._channel, theirs = Pipe()
        with theirs, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, ROOT, str(theirs.fileno()), self._folder, where, str(patience)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **SETTINGS},
                start_new_session=True,  # Ctrl-C is for us, who tell it
            )

    def say(self, errand: Errand) -> None:
        with suppress(ConnectionError):  # it has ended, which `hear` tells of
            self._channel.send_bytes(encode(errand))

    def hear(self, timeout: float | None = None) -> Said | None:
        """What it says next, or nothing in this time. Raises UserError where it says that it cannot go on."""
        if not self._channel.poll(timeout):
            return None
        try:
            said = said_in(self._channel.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._failure() from None
        self._heard = True
        if isinstance(said, Refused):
            raise UserError(said.what, said.remedy)
        return said

    def end(self) -> None:
        """One that never said anything has nothing to leave in good order."""
        self._channel.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE + 2 if self._heard else 0)
        finally:
            self._process.kill()
            self._process.wait()
            self._sweep()

    def _sweep(self) -> None:
        """What a cluster that we started leaves: processes that stand in its folder, and the folder they write to."""
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                if one.cwd().startswith(self._folder):
                    one.kill()
                    one.wait(1)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _failure(self) -> Exception:
        """It is gone without a word: by a mistake of ours, or because Ray ends whoever has lost its cluster."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        words = self._log.read_text(errors="replace").strip()
        if "Traceback" in words:
            return RuntimeError(f"the process that speaks to Ray failed:\n{words[-4000:]}")
        last = STAMP.sub("", words.splitlines()[-1]).partition(". ")[0] if words else "it ended without a word"
        return UserError(f"Ray lost its cluster: {shortened(last)}", AGAIN)
