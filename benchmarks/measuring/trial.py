"""Runs one scenario under `unstuck run` and notes when each line of stderr appeared and when the command ended."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
from measuring import children

from unstuck.demo import scenarios
from unstuck.demo.surroundings import Unavailable, surroundings
from unstuck.errors import UserError
from unstuck.evidence import Run
from unstuck.report import Report

LIMIT = 240.0  # seconds
EVERY = 0.02  # seconds between two looks at what was printed: as exact as the times are
HEADLINE = re.compile(r"[✗✓!?] (bad data|[a-z]+)(?:\[([a-z0-9-]+)\])?  ")
OUTPUT = "output.txt"  # where children.running has stdout written to
SAID = "stderr.txt"


class Interrupted(Exception):  # noqa: N818
    """The benchmark is being ended."""


class Line(NamedTuple):
    """A line of stderr and when it was there, in seconds since the epoch."""

    at: float
    text: str


class Trial(NamedTuple):
    """What came out of one run. Without a report, `failed` says why; `skipped` that this machine cannot run it."""

    scenario: scenarios.Scenario
    lines: tuple[Line, ...] = ()
    report: Report | None = None
    ended: float | None = None  # the command's own process
    judged: float | None = None  # by `unstuck why`, where the watcher was killed too
    code: int | None = None
    output: str = ""
    failed: str = ""
    skipped: str = ""

    @property
    def verdict(self):
        return "" if self.report is None else scenarios.Outcome(self.report, Path(), "").verdict()

    def block(self, *, live=False):
        """When the first verdict was printed; `live`: while the command still ran."""
        return next((at for at, _, _ in self.blocks(live=live)), None)

    def blocks(self, *, live=False):
        """When each root was printed, its state, and its rule; or the state alone."""
        found = []
        for line in self.lines:
            headline = HEADLINE.match(line.text)
            if headline:
                found.append((line.at, headline[1], [headline[2]] if headline[2] else []))
        return [one for one in found if not live or self.ended is None or one[0] <= self.ended]

    def told(self):
        """When the expected cause was printed while the command still ran."""
        return next((at for at, _, rules in self.blocks(live=True) if self.scenario.expect in rules), None)


def run(scenario, stopping, keep=None):
    """Once; again if no verdict came out of it, as when a file of ours was being saved at that moment."""
    found = _run(scenario, stopping, keep)
    return _run(scenario, stopping, keep) if found.failed else found


def _run(scenario, stopping, keep):
    with tempfile.TemporaryDirectory(prefix="detection-", ignore_cleanup_errors=True) as name:
        try:
            with surroundings(scenario.surroundings) as around:
                found = _watched(scenario, Path(name), around, stopping)
        except Unavailable as reason:
            return Trial(scenario, skipped=str(reason))
        if keep is not None and found.verdict != scenario.expect:
            shutil.copytree(name, keep / scenario.name, dirs_exist_ok=True)
        return found


def _watched(scenario, folder, around, stopping):
    command = [
        "sh", "-c", f'exec "$@" 2>{SAID}', "sh", *around.outside, sys.executable, "-m", "unstuck", "run",
        "--run-dir", "runs", "--on-stall", "stop-always", "--", *around.inside, *scenario.command(sys.executable),
    ]  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("UNSTUCK")}
    contained = "container" in scenario.surroundings
    (folder / "tmp").mkdir()
    variables = {**kept, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder / "tmp")}
    with children.running(command, variables, folder) as child:
        lines, ended = follow(child, folder, stopping, end_of_command=not contained)
        gone = time.time()
        code = child.poll()
    said = "".join(f"{one.text}\n" for one in lines)
    told = f"{(folder / OUTPUT).read_text(errors='replace')}{said}"
    saved = next(iter(sorted(folder.glob("runs/*/run.json"))), None)
    if saved is None or code is None:
        failed = "it left no run behind" if saved is None else f"no end after {LIMIT:.0f} s"
        return Trial(scenario, lines, None, ended, None, code, told, failed)
    had = (saved.parent / "report.json").exists()
    try:
        report = scenarios.judged(saved.parent)
    except (msgspec.DecodeError, UserError) as error:
        return Trial(scenario, lines, None, ended, None, code, told, f"no verdict: {error}")
    judged = None if had else time.time()
    return Trial(scenario, lines, report, ended or _seen_to_end(report) or gone, judged, code, told)


def follow(child, folder, stopping, *, end_of_command=True):
    """Until it ends: the lines of stderr as they come, and when the command's own process ended."""
    lines, rest, ended, handle = [], b"", None, None
    until = time.monotonic() + LIMIT
    with contextlib.ExitStack() as stack:
        while not (folder / SAID).exists() and child.poll() is None:
            time.sleep(EVERY)
        stream = stack.enter_context((folder / SAID).open("rb"))
        while True:
            over = child.poll() is not None
            *whole, rest = (rest + stream.read()).split(b"\n")
            now = time.time()
            lines += [Line(now, text.decode(errors="replace")) for text in whole]
            if handle is None and end_of_command:
                handle = _handle(folder, stack)
            if handle is not None and ended is None and select.select([handle], [], [], 0)[0]:
                ended = now
            if over or time.monotonic() > until:
                return lines, ended
            if stopping.wait(EVERY):
                raise Interrupted


def _handle(folder, stack):
    """The command's process, as soon as the run is described. It can be waited for though it is not our child."""
    for path in folder.glob("runs/*/run.json"):
        with contextlib.suppress(OSError, msgspec.DecodeError, TypeError):
            handle = os.pidfd_open(msgspec.json.decode(path.read_bytes(), type=Run).pid)
            stack.callback(os.close, handle)
            return handle
    return None


def _seen_to_end(report):
    """When the watcher itself saw the command end: for one that was over before we could look."""
    exits = getattr(report.evidence, "exits", None) or []
    return next((report.run.started + one.at for one in exits if one.how == "waited"), None)
