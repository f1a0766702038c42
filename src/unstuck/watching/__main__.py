"""The detached watcher of a run that was switched on from inside: `unstuck.watching FOLDER PID RECORDINGS COMMAND`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

from ..errors import UserError
from ..logs.files import Line, Settings, from_variables
from ..probes import kernel
from ..report import Report
from ..wording.language import word
from ..wording.printable import quoted
from .fence import speak
from .follow import TICK
from .recorded_run import JUDGING, hear_sigterm
from .run_storage import hold_run
from .stalls import Options
from .watcher import Watcher

PATIENCE = 5.0  # seconds for the interpreter to get to a handler
GRACE = 25.0  # seconds: Slurm kills 30 s after SIGTERM, and so does Kubernetes


def main(folder: Path, pid: int, recordings: Path, command: list[str]) -> None:
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        hold_run(folder)
    except OSError as error:
        speak(f"no recording in {folder.parent} ({error.strerror}); the program runs unrecorded", "unstuck: ")
        return
    watcher = Watcher(folder, recordings, Voice(), Options(), settings(pid), None)
    if not watcher.begin(command, pid):
        return
    quiet, leaving = 0, float("inf")
    # A launcher may have gone while its ranks are still opening their recordings.
    while quiet < 2 and time.monotonic() < leaving:
        if _told_to_go(watcher):
            leaving = min(leaving, time.monotonic() + GRACE)
        watcher.tick()
        quiet = 0 if watcher.anyone() else quiet + 1
    if quiet < 2:  # only this watcher was told to go
        sys.exit(1)
    _be_bounded(folder, min(JUDGING, leaving - time.monotonic()))
    watcher.finish(None)


def _be_bounded(folder: Path, seconds: float) -> None:
    """The training has ended: whoever waits for the end of its streams, which we have too, must not wait for ever."""

    def give_up(*_: object) -> None:
        speak(f"no verdict within {JUDGING:.0f} s: unstuck why {quoted(str(folder))}")
        sys.exit(1)

    seconds = max(seconds, 1.0)
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    # Native code that hangs lets no handler run.
    faulthandler.dump_traceback_later(seconds + PATIENCE, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115
    hear_sigterm()


def _told_to_go(watcher: Watcher) -> bool:
    """Wait for a tick. Schedulers tell all processes of a job to go: the run is seen to its end before we do."""
    until = time.monotonic() + TICK
    came = signal.sigtimedwait({signal.SIGTERM}, TICK)
    if came is None:
        return False
    watcher.heard(came.si_signo, came.si_pid if came.si_code <= 0 else 0, came.si_code)
    time.sleep(max(until - time.monotonic(), 0.0))
    return True


def settings(pid: int) -> Settings:
    """As the training's own environment has them: the watcher's was emptied of all that is ours."""
    try:
        return from_variables(kernel.environment(pid))
    except UserError as error:
        Voice().say(f"{error}; the default is used")
        return Settings()


class Voice:
    """On the run's own stderr, and only when there is something to say."""

    def end(self, report: Report, folder: Path) -> None:
        for finding in report.findings[:1]:
            self.say(f"{word(report.state)}[{finding.rule}]  {finding.cause}")
            self.say(f"{word('fix')}: {finding.remedy.text}")
            self.say(f"unstuck why {quoted(str(folder))}")

    def stall(self, report: Report, folder: Path) -> None:
        if report.findings:
            self.end(report, folder)
        else:
            self.say(f"no progress, and no cause is known: unstuck why {quoted(str(folder))}")

    def line(self, line: Line) -> None:
        """The training's own output is on the console already."""

    def say(self, line: str) -> None:
        speak(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
