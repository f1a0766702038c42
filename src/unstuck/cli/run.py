"""Run a command, record it, and say what went wrong.

    unstuck run -- python train.py --epochs 3
    unstuck run -- torchrun --nproc-per-node 2 train.py
    unstuck run --on-stall stop -- python train.py
    unstuck run --quiet -- python train.py

Output, signals and the exit code remain those of the command. When it has ended, a block on stderr says what was found.
After 10 s without progress, or ten times as long as that activity usually takes, the run is examined: a cause is
reported at once, and the run continues. Exit code 124: no progress, and the run was stopped (--on-stall stop).
The text logs in the run folder are written from the recording, not by the training; `unstuck logs` shows them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import UserError
from ..inside.core import run_folder
from ..inside.format import SAMPLE_TIMES
from ..logs.files import DEBUG, EVERY, LEVEL, LEVELS, VALIDATION_EVERY, Line, Settings, from_variables
from ..report import Report, encoded
from ..safe_files import write_private
from ..views.as_json import render
from ..views.console import console_for
from ..views.terminal import show
from ..watching.fence import go_silent, speak
from ..watching.recorded_run import around, run_plainly, run_recorded
from ..watching.stalls import ALWAYS, CERTAIN, Options
from ..wording.printable import quoted
from .arguments import add_view_arguments, batches, seconds
from .notifier import Notifier

PROGRESS_EVERY = 10.0  # seconds between two lines of progress on the console of a quiet run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "unstuck run [--run-dir DIR] [--on-stall report|stop|stop-always] [--stall-after S] [--on-finding CMD] "
        "[--report FILE] [--quiet] [--log-level DEBUG|INFO] [--log-every N] [--log-validation-every N] "
        "[--sample-times] [--verbose] [--plain] -- COMMAND..."
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("unstuck-runs"),
        metavar="DIR",
        help="folder for the run folders (default: unstuck-runs)",
    )
    parser.add_argument(
        "--on-stall",
        choices=("report", CERTAIN, ALWAYS),
        default="report",
        help="what to do when there is no progress. report (default): report the cause and keep watching; stop: also "
        "stop the run (exit code 124) if the cause is certain; stop-always: stop it for any cause, and even without "
        "one after --stall-after",
    )
    parser.add_argument(
        "--stall-after",
        type=seconds,
        metavar="S",
        help="seconds without progress after which a stall is reported even if its cause is unknown (default: 60)",
    )
    parser.add_argument(
        "--on-finding",
        metavar="CMD",
        help="command to run when a cause is found, with the path of the report as its last argument",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the report into FILE, as JSON")
    add_view_arguments(parser)
    _add_log_arguments(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="command to run, after --")


def _add_log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="write the output of the command into logs/output_<time>.log of the run folder, and show only key lines "
        "(epochs, errors, findings, progress); the command then has no terminal",
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        help=f"INFO: no lines about batches and samples (default: DEBUG, or ${LEVEL})",
    )
    parser.add_argument(
        "--log-every",
        type=batches,
        metavar="N",
        help=f"log a line every N training batches (default: 100, or ${EVERY})",
    )
    parser.add_argument(
        "--log-validation-every",
        type=batches,
        metavar="N",
        help=f"log a line every N validation batches (default: 20, or ${VALIDATION_EVERY})",
    )
    parser.add_argument(
        "--sample-times",
        action="store_true",
        help="log every sample, stage by stage, in the log of its rank (as many as can be read; "
        f"default: off, or ${SAMPLE_TIMES}=1)",
    )


def run(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UserError("there is no command to run", "write it after --, as in `unstuck run -- python train.py`")
    if run_folder.switched_off():
        return run_plainly(command)
    try:
        code = _recorded(arguments, command)
    except UserError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  (whatever it is, the command has not been started, and has to be)
        reason = f"no recording in {arguments.run_dir} ({type(error).__name__}: {error}); the command runs unrecorded"
    else:
        return run_plainly(command) if code is None else code
    with contextlib.suppress(Exception):
        speak(reason, "unstuck: ")
    return run_plainly(command)


def _recorded(arguments: argparse.Namespace, command: list[str]) -> int | None:
    """The command's exit code. None: it is not to be recorded. Whatever is raised, it has not been started."""
    if arguments.sample_times:
        os.environ[SAMPLE_TIMES] = "1"  # the command is given it, too
    outer = around()
    if outer is not None:
        speak(f"already recorded by an outer `unstuck run`, which reports its findings: unstuck why {quoted(outer)}")
        return None
    settings = _settings(arguments)
    options = Options(stop=arguments.on_stall if arguments.on_stall != "report" else "", after=arguments.stall_after)
    shown = Shown(arguments.verbose, arguments.plain)
    teller = Teller(arguments.report, Notifier(arguments.on_finding), shown)
    return run_recorded(command, arguments.run_dir, teller, options, settings)


def _settings(arguments: argparse.Namespace) -> Settings:
    """Options count more than variables. A variable that is wrong is no reason not to run the command."""
    try:
        given = from_variables(os.environ)
    except UserError as error:
        speak(f"{error}; the default is used", "unstuck: ")
        given = Settings()
    return Settings(
        level=arguments.log_level or given.level,
        every=arguments.log_every or given.every,
        validation_every=arguments.log_validation_every or given.validation_every,
        samples=given.samples,
        quiet=arguments.quiet,
    )


class Shown(NamedTuple):
    """How a verdict is shown."""

    verbose: bool = False
    plain: bool = False


class Teller:
    """Speaks on stderr: the command's own output is nobody's business but its user's."""

    def __init__(self, file: Path | None, notifier: Notifier, shown: Shown) -> None:
        self.file = file
        self.shown = shown
        self.notifier = notifier
        self._told: list[str] = []  # causes that stand on the screen already
        self._progress_told = 0.0
        self._mask = os.umask(0o077)  # the user's own, for a file that he asks for
        os.umask(self._mask)

    def end(self, report: Report, folder: Path) -> None:
        try:
            self._tell_end(report, folder)
        except SystemExit:  # somebody wants us to leave
            self.notifier.end()
            raise

    def _tell_end(self, report: Report, folder: Path) -> None:
        self._write(report)
        roots = _roots(report)
        if roots and roots == self._told:
            self.say(f"the run has ended; the cause is above ({roots[0]}): unstuck why {_shown(folder)}")
        else:
            _show(report, folder, self.shown)
        self.notifier.tell(report, folder / "report.json")
        self.notifier.wait()

    def stall(self, report: Report, folder: Path) -> None:
        saved = folder / "report.json"
        try:
            write_private(saved, encoded(report))
        except OSError as error:
            speak(f"{saved} could not be written ({error.strerror})", "unstuck: ")
        self._write(msgspec.structs.replace(report, evidence=str(saved)))
        self._told = _roots(report)
        _show(report, folder, self.shown)
        self.notifier.tell(report, saved)

    def say(self, line: str) -> None:
        speak(line)

    def line(self, line: Line) -> None:
        """A key line of a quiet run. Of progress, one every so often is enough."""
        if line.level == DEBUG:
            if time.monotonic() - self._progress_told < PROGRESS_EVERY:
                return
            self._progress_told = time.monotonic()
        self.say(f"{time.strftime('%H:%M:%S', time.localtime(line.at))} {line.text}")

    def _write(self, report: Report) -> None:
        if self.file is not None:
            try:
                self.file.write_text(render(report))
                self.file.chmod(0o666 & ~self._mask)
            except OSError as error:
                speak(f"{self.file} could not be written ({error.strerror})", "unstuck: ")


def _roots(report: Report) -> list[str]:
    return [one.rule for one in report.findings if one.role == "root"]


def _show(report: Report, folder: Path, how: Shown) -> None:
    """Nobody may be reading, and stderr may be closed: then it is not shown, and stands in report.json."""
    if sys.stderr is None:
        return
    try:
        show(report, console_for(sys.stderr, plain=how.plain), _shown(folder), verbose=how.verbose)
    except (OSError, ValueError):
        go_silent()
    except SystemExit as end:
        if not end.code:  # it is ours: somebody wants us to leave
            raise
        go_silent()  # rich leaves by this when a pipe is broken


def _shown(folder: Path) -> str:
    """The run folder as short as it can be pasted."""
    try:
        return quoted(str(folder.relative_to(Path.cwd())))
    except (ValueError, OSError):
        return quoted(str(folder))
