"""Where a quiet run's own output goes: through a pipe to a process that does nothing but drain it."""

from __future__ import annotations

import os
import subprocess
import sys

from ..safe_files import PRIVATE_FOLDER, append_private

PATIENCE = 2.0  # seconds: a process that outlives the command may hold the pipe for ever


class Output:
    """Made before the command is started."""

    def __init__(self, path: str) -> None:
        """Raises OSError where there can be no such file."""
        os.makedirs(os.path.dirname(path), PRIVATE_FOLDER, exist_ok=True)
        os.close(append_private(path))
        self.path = path
        source, self.fd = os.pipe2(os.O_CLOEXEC)
        try:
            self._drain = subprocess.Popen(
                [sys.executable, "-m", "unstuck.logs.drain", path],
                stdin=source,
                stdout=subprocess.DEVNULL,  # not ours: whoever waits for the end of our streams must not wait for it
                stderr=subprocess.DEVNULL,
                env={**os.environ, "UNSTUCK": "0", "PYTHONSAFEPATH": "1"},
                start_new_session=True,
            )
        finally:
            os.close(source)

    def started(self) -> None:
        """The command has its end of the pipe now; ours would keep it open."""
        os.close(self.fd)

    def finish(self) -> None:
        try:
            self._drain.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return
