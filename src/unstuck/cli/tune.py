"""Find the best num_workers, prefetch_factor and other settings of a loader, by measuring it.

  unstuck tune train.py:make_loader
  unstuck tune train.py:make_loader --memory 64G --seconds 120
  unstuck tune train.py:make_loader --step-ms 85          the cheapest setting that keeps up with this step time
  unstuck tune train.py:make_loader --run unstuck-runs/X  the same, with the step time of a recorded run

Only a few settings are measured, each until the result is precise enough: `next()` is timed, without the warm-up, and
the noise is shown. Ctrl-C ends it and prints what was measured so far; no process is left behind.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.cells import cell_len

from ..report import Report
from ..trials.attempt import forget, prepare
from ..trials.cleanup import heard
from ..trials.tune.tune import INTERRUPTED, Step, Wanted, step_of, tune
from ..views.console import console_for
from ..views.tuning import show
from ..watching.fence import speak
from ..wording.language import word
from ..wording.text import many
from .arguments import above_zero
from .main import COULD_NOT_LOOK
from .target import add_target_arguments, exit_code, judged, printed, wishes, work_of

DEFAULT_SECONDS = 60.0
QUIET = 2.0  # seconds before the first word: what is quick needs none
LINE_EVERY = 10.0  # seconds between two lines where they stay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target_arguments(parser)
    parser.add_argument(
        "--seconds",
        type=above_zero,
        default=DEFAULT_SECONDS,
        metavar="S",
        help="time for measuring, in seconds (default: 60)",
    )
    fed = parser.add_mutually_exclusive_group()
    fed.add_argument(
        "--step-ms", type=above_zero, metavar="MS", help="time of a training step, which the loader has to keep up with"
    )
    fed.add_argument(
        "--run", type=Path, metavar="FOLDER", help="run folder of the training that the loader has to keep up with"
    )


def run(arguments: argparse.Namespace) -> int:
    heard()
    work = work_of(arguments, "tune")
    step = Step(arguments.step_ms / 1e3, "--step-ms") if arguments.step_ms else None
    step = step_of(arguments.run) if arguments.run is not None else step
    prepare()
    line = Line()
    try:
        trial = tune(work, Wanted(arguments.seconds, wishes(arguments), arguments.memory, step), line)
    finally:
        line.clear()
    report = judged(trial, work)
    forget(work.folder, sorted(work.folder.glob("trial-measuring-*")), speak)
    if arguments.json:
        printed(report, arguments, work)
    else:
        console = console_for(sys.stdout, plain=arguments.plain)
        show(report, console, str(work.folder), verbose=arguments.verbose)
    return _code(report)


def _code(report: Report) -> int:
    search = report.trial.search if report.trial is not None else None
    if search is not None and search.stopped == INTERRUPTED:
        return 130
    found = report.trial is not None and report.trial.proposals
    return exit_code(report) if found or report.findings else COULD_NOT_LOOK


class Line:
    """What is being measured, on stderr: one line that is written over on a terminal, now and then a line elsewhere."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = 0

    def __call__(self, what: str, count: int, left: float) -> None:
        now = time.monotonic()
        if now - self._began < QUIET or now - self._last < (0.2 if self._terminal else LINE_EVERY):
            return
        self._last = now
        doing = f"measuring {what}" if what else "importing and reading some data"
        said = f"{doing}; {many(count, 'setting')} measured, at most {left:.0f} s left"
        text = f"unstuck: {word(said)}"
        if self._terminal:
            sys.stderr.write(f"\r{text}{' ' * (self._shown - cell_len(text))}")
            self._shown = cell_len(text)
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write(f"\r{' ' * self._shown}\r")
            sys.stderr.flush()
