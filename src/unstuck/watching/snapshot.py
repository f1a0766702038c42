"""Looks into a run that stands still: `unstuck.watching.snapshot FOLDER PID STALL DUE`, in a process of its own.

So the watcher stays small, goes on passing signals while this looks, and outlives whatever happens to it. It is started
a moment early, and waits until the look is due by the monotonic clock, which all processes share.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from ..diagnose import diagnose_stall, get_ready
from ..errors import UserError
from ..evidence.live import Stall
from ..probes import snapshots


def main(folder: Path, pid: int, stall: Stall, due: float) -> int:
    get_ready()
    time.sleep(max(due - time.monotonic(), 0.0))
    try:
        report = diagnose_stall(folder, pid, stall)
    except UserError:  # it has ended by itself
        return 2
    sys.stdout.buffer.write(msgspec.json.encode(report))
    try:
        snapshots.save(report, folder)
    except OSError as error:
        print(f"unstuck: the look at the stall could not be kept in {folder} ({error.strerror})", file=sys.stderr)
    return 0


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.argv[3], type=Stall)
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), asked, float(sys.argv[4])))
