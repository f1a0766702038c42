"""Where a quiet run's own output goes: through a pipe to a process that does nothing but drain it.

That one is `unstuck.logs.quiet FILE`. It outlives the watcher, ignores what ends others, and reads on whatever happens
to the file: nobody's `print` waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys

from ..inside.core import run_folder
from ..safe_files import append_private, hold, make_folder
from .files import LogFile

PATIENCE = 2.0  # seconds: a process that outlives the command may hold the pipe for ever
AT_ONCE = 1 << 20  # bytes; a pipe of this size lets a chatty program run ahead
LIMIT, KEPT = 16 << 20, 3  # bytes: 64 MiB of output at the most


class Output:
    """Made before the command is started."""

    def __init__(self, path: str) -> None:
        """Raises OSError where there can be no such file."""
        make_folder(os.path.dirname(path))
        os.close(append_private(path))
        self.path = path
        source, self.fd = os.pipe2(os.O_CLOEXEC)
        try:
            self._drain = subprocess.Popen(
                [sys.executable, "-m", "unstuck.logs.quiet", path],
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


def drain(path: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # an unprivileged user may have used up what pipes he may have
        fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, AT_ONCE)
    folder = os.path.dirname(os.path.dirname(path))
    try:
        hold(folder, run_folder.opened_run(folder))
        file: LogFile | None = LogFile(path, LIMIT, KEPT)
    except OSError:
        file = None
    while data := os.read(0, AT_ONCE):
        if file is not None:
            file.write(data)


if __name__ == "__main__":
    drain(sys.argv[1])
