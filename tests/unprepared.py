"""Runs a scenario plainly, as somebody who has never heard of us would, and looks at it from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec
import psutil

from unstuck.demo.scenarios import LIMIT, Scenario, scratch
from unstuck.demo.surroundings import surroundings
from unstuck.report import Report


@contextmanager
def started(
    scenario: Scenario, python: str = sys.executable, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The scenario's process. Afterwards it is ended with everything it started."""
    with surroundings(scenario.surroundings) as around, scratch() as temporary:
        command = [*around.outside, *around.inside, *scenario.command(python)]
        process = subprocess.Popen(
            command,
            env={**os.environ, "TMPDIR": temporary, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process)


def why(pid: int, *options: str) -> Report | None:
    """What `unstuck why PID` says. None: it could not look, because the process has ended or is not Python yet."""
    command = [sys.executable, "-m", "unstuck", "why", str(pid), "--json", "--with-evidence", *options]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT, check=False).stdout
    return msgspec.json.decode(said, type=Report) if said else None


def reports(process: subprocess.Popen[bytes], every: float, limit: float = LIMIT) -> Iterator[Report]:
    """One after the other, until the process ends."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        try:
            process.wait(every)
        except subprocess.TimeoutExpired:
            report = why(process.pid)
            if report is not None:
                yield report
        else:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.kill()
    for one in family:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(family, timeout=5)
