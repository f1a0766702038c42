"""Run a command, record it, and say what went wrong.

    unstuck run -- python train.py --epochs 3
    unstuck run -- torchrun --nproc-per-node 2 train.py

Streams, signals and the exit code are the command's own. When it has ended, one block on stderr says what was found.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..errors import UserError
from ..inside import run_folder
from ..model.report import Report
from ..views.as_json import render
from ..views.terminal import console_for, show
from ..watching.running import run_plainly, run_recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "unstuck run [--run-dir DIR] [--report FILE] -- COMMAND..."
    parser.add_argument(
        "--run-dir", type=Path, default=Path("unstuck-runs"), metavar="DIR", help="where run folders go"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the report there, as JSON")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run, after --")


def run(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UserError("there is no command to run", "write it after --, as in `unstuck run -- python train.py`")
    if run_folder.switched_off():
        return run_plainly(command)
    try:
        return run_recorded(command, arguments.run_dir, _Teller(arguments.report))
    except UserError as error:
        print(f"unstuck: {error}", file=sys.stderr)
        return run_plainly(command)


class _Teller:
    def __init__(self, file: Path | None) -> None:
        self.file = file

    def __call__(self, report: Report, folder: Path) -> None:
        if self.file is not None:
            try:
                self.file.write_text(render(report))
            except OSError as error:
                print(f"unstuck: {self.file} could not be written ({error.strerror})", file=sys.stderr)
        show(report, console_for(sys.stderr), _shown(folder))


def _shown(folder: Path) -> str:
    """The run folder as short as it can be pasted."""
    try:
        return str(folder.relative_to(Path.cwd()))
    except ValueError:
        return str(folder)
