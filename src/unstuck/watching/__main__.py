"""The detached watcher of a run that was switched on from inside: `unstuck.watching FOLDER PID RECORDINGS COMMAND`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ..errors import UserError
from ..logs.folder import LogFolder
from ..logs.line import Line
from ..logs.settings import Settings, from_variables
from ..logs.writer import Logs
from ..model.report import Report
from ..probes import kernel
from . import place
from .following import TICK
from .running import Logged, Watch, finish
from .stalls import Options


def main(folder: Path, pid: int, recordings: Path, command: list[str]) -> None:
    run = place.describe(folder, command, pid)
    lock = place.elect(folder)
    if lock is None:
        return
    logs = Logs(LogFolder(str(folder / "logs"), run, settings(pid), run.started), str(recordings))
    voice = Logged(Voice(), logs.folder)
    watch = Watch(folder, recordings, pid, run.started, voice, Options(), logs)
    watch.tick()
    quiet = 0
    while quiet < 2:  # a launcher may have gone while its ranks are still opening their recordings
        time.sleep(TICK)
        watch.tick()
        quiet = 0 if watch.following.anyone() else quiet + 1
    watch.close()
    watch.following.finish()
    logs.folder.ended(None, time.time())
    finish(folder, recordings, run, None, voice)
    lock.close()


def settings(pid: int) -> Settings:
    """As the training's own environment has them: the watcher's was emptied of all that is ours."""
    try:
        return from_variables(kernel.environment(pid))
    except UserError as error:
        Voice().say(f"{error}; the usual is taken")
        return Settings()


class Voice:
    """On the run's own stderr, and only when there is something to say."""

    def end(self, report: Report, folder: Path) -> None:
        for finding in report.findings[:1]:
            self.say(f"{report.state}: {finding.cause}")
            self.say(finding.remedy.text)
            self.say(f"unstuck why {folder}")

    def stall(self, report: Report, folder: Path) -> None:
        if report.findings:
            self.end(report, folder)
        else:
            self.say(f"the run stands still, and no cause is known: unstuck why {folder}")

    def line(self, line: Line) -> None:
        """The training's own output is on the console already."""

    def say(self, line: str) -> None:
        print(f"[unstuck] {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
