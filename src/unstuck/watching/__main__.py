"""The detached watcher of a run that was switched on from inside: `unstuck.watching FOLDER PID RECORDINGS COMMAND`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ..model.report import Report
from . import place
from .following import TICK, Following
from .running import finish


def main(folder: Path, pid: int, recordings: Path, command: list[str]) -> None:
    run = place.describe(folder, command, pid)
    lock = place.elect(folder)
    if lock is None:
        return
    following = Following(folder, recordings, pid, run.started)
    following.tick()
    quiet = 0
    while quiet < 2:  # a launcher may have gone while its ranks are still opening their recordings
        time.sleep(TICK)
        following.tick()
        quiet = 0 if following.anyone() else quiet + 1
    following.finish()
    finish(folder, recordings, run, None, _tell)
    lock.close()


def _tell(report: Report, folder: Path) -> None:
    """On the run's own stderr, and only when there is something to say."""
    for finding in report.findings[:1]:
        print(f"[unstuck] {report.state}: {finding.cause}", file=sys.stderr)
        print(f"[unstuck] {finding.remedy.text}", file=sys.stderr)
        print(f"[unstuck] unstuck why {folder}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
