"""Takes a quiet run's own output off its hands: `unstuck.logs.drain FILE`, in a process of its own, from its stdin.

It outlives the watcher, ignores what ends others, and reads on whatever happens to the file: nobody's `print` waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys

from .files import LogFile

AT_ONCE = 1 << 20  # bytes; a pipe of this size lets a chatty program run ahead
LIMIT, KEPT = 16 << 20, 3  # bytes: 64 MiB of output at the most


def main(path: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # an unprivileged user may have used up what pipes he may have
        fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, AT_ONCE)
    try:
        file: LogFile | None = LogFile(path, LIMIT, KEPT)
    except OSError:
        file = None
    while data := os.read(0, AT_ONCE):
        if file is not None:
            file.write(data)


if __name__ == "__main__":
    main(sys.argv[1])
