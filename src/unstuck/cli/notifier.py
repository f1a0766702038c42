"""Runs the user's own command when a cause is found: `--on-finding CMD`."""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import signal
import time
from pathlib import Path

from ..report import Report
from ..watching.command import RESTORED, ended
from ..watching.fence import speak

PATIENCE = 30.0  # seconds that a command still has when the run has ended
EVERY = 0.05  # seconds between two looks whether it has ended


class Notifier:
    """Each cause is told once. The command gets the report's path as its last argument and in UNSTUCK_REPORT."""

    def __init__(self, command: str | None) -> None:
        self._command = command
        self._as_it_was = _surroundings()
        self._told: set[str] = set()
        self._running: list[int] = []

    def tell(self, report: Report, path: Path) -> None:
        roots = {finding.rule for finding in report.findings if finding.role == "root"}
        if self._command is None or not roots - self._told:
            return
        self._told |= roots
        where = str(path.absolute())
        # Between starting it and knowing its pid, nobody may end us: nobody else would end it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            # Signals as a shell would give them, and a group of its own, so that it can be ended with all it started.
            pid = os.posix_spawn(
                "/bin/sh",
                ["/bin/sh", "-c", f"{self._as_it_was}\n{self._command} {shlex.quote(where)}"],
                {**os.environ, "UNSTUCK_REPORT": where},
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1)],
                setpgroup=0,
                setsigmask=[],
                setsigdef=RESTORED,
            )
        except OSError as error:
            speak(f"--on-finding could not be run ({error.strerror})", "unstuck: ")
            return
        else:
            self._running.append(pid)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def wait(self) -> None:
        """At the end of the run. One that takes too long goes on alone."""
        until = time.monotonic() + PATIENCE
        while self._still_running() and time.monotonic() < until:
            time.sleep(EVERY)
        for pid in self._running:
            speak(f"--on-finding is still running (pid {pid})", "unstuck: ")

    def end(self) -> None:
        """Whoever interrupts us ends it, too."""
        for pid in self._still_running():
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGTERM)

    def _still_running(self) -> list[int]:
        self._running = [pid for pid in self._running if ended(pid) is None]
        return self._running


def _surroundings() -> str:
    """What the watcher changes for itself and the user's command is given back: who may read its files, how many."""
    mask = os.umask(0o077)
    os.umask(mask)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = "unlimited" if most == resource.RLIM_INFINITY else most
    return f"umask {mask:04o}; ulimit -S -n {files} 2>/dev/null"
