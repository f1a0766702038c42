"""Runs the user's own command when a cause is found: `--on-finding CMD`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from ..model.report import Report

PATIENCE = 30.0  # seconds that a command still has when the run has ended


class Notifier:
    """Each cause is told once. The command gets the report's path as its last argument and in UNSTUCK_REPORT."""

    def __init__(self, command: str | None) -> None:
        self._command = command
        self._told: set[str] = set()
        self._running: list[subprocess.Popen[bytes]] = []

    def tell(self, report: Report, path: Path) -> None:
        roots = {one.rule for one in report.findings if one.role == "root"}
        if self._command is None or not roots - self._told:
            return
        self._told |= roots
        where = str(path.absolute())
        try:
            started = subprocess.Popen(
                ["/bin/sh", "-c", f"{self._command} {shlex.quote(where)}"],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                env={**os.environ, "UNSTUCK_REPORT": where},
            )
        except OSError as error:
            print(f"unstuck: --on-finding could not be run ({error.strerror})", file=sys.stderr)
            return
        self._running.append(started)

    def wait(self) -> None:
        """At the end of the run. One that takes too long goes on alone."""
        until = time.monotonic() + PATIENCE
        for one in self._running:
            try:
                one.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                print(f"unstuck: --on-finding is still running (pid {one.pid})", file=sys.stderr)
