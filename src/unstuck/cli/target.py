"""What doctor, tune and budget have in common on the command line."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from ..diagnose import report_on
from ..errors import UserError
from ..evidence import Evidence, Run
from ..evidence.trial import PASS, Trial
from ..inside.redaction import redacted_arguments
from ..report import Report
from ..safe_files import write_private
from ..trials.attempt import Work, forget, interpreter
from ..trials.doctor.environment import notes
from ..views.as_json import render
from ..views.budgets import show_budget
from ..views.trials import show_doctor
from ..views.tuning import show as show_tuning
from ..watching.fence import speak
from .arguments import add_view_arguments, count, size
from .main import COULD_NOT_LOOK, FOUND

HELP = "module:callable or path.py:callable that returns a DataLoader, a Dataset or a LightningDataModule"


def add_target_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("target", nargs=None if required else "?", metavar="TARGET", help=HELP)
    parser.add_argument(
        "--kwargs",
        nargs="+",
        action="extend",
        default=[],
        metavar="KWARGS",
        help="arguments of the callable: a JSON object, or name=value",
    )
    parser.add_argument("--workers", type=count, metavar="N", help="as if the loader had num_workers=N")
    parser.add_argument("--batch", type=count, metavar="N", help="as if the loader had batch_size=N")
    parser.add_argument("--prefetch", type=count, metavar="N", help="as if the loader had prefetch_factor=N")
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory that may be used, such as 64G (default: what the machine or cgroup has left)",
    )
    parser.add_argument(
        "--python", metavar="PYTHON", help="Python interpreter of the training (default: one that has torch)"
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("unstuck-runs"),
        metavar="DIR",
        help="folder for the recordings (default: unstuck-runs)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--with-evidence", action="store_true", help="with --json: include the evidence")
    add_view_arguments(parser)


def work_of(arguments: argparse.Namespace, command: str) -> Work:
    """Where, with what, in which interpreter. The folder is made when something is run."""
    if ":" not in arguments.target:
        remedy = f"write {arguments.target}:CALLABLE, which returns a DataLoader, a Dataset or a LightningDataModule"
        raise UserError(f"{arguments.target} names no callable", remedy)
    folder = arguments.run_dir / f"{command}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return Work(arguments.target, keywords(arguments.kwargs), interpreter(arguments.python), folder.absolute())


def wishes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings of the loader that the command line changes."""
    given = {
        "batch_size": arguments.batch, "num_workers": arguments.workers, "prefetch_factor": arguments.prefetch
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def keywords(words: list[str]) -> dict[str, Any]:
    """`{"root": "data"}` or `root=data size=3`, also mixed."""
    found: dict[str, Any] = {}
    for word in words:
        if word.lstrip().startswith("{"):
            found |= _object(word)
            continue
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"--kwargs: {word!r} is not an argument", """write name=value or '{"name": value}'""")
        found[name] = _value(value)
    return found


def _object(word: str) -> dict[str, Any]:
    try:
        return dict(json.loads(word))
    except ValueError as error:
        raise UserError(f"--kwargs is not a JSON object ({error})", """write it as '{"name": value}'""") from None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def judged(trial: Trial, work: Work | None) -> Report:
    """The verdict on what was tried; kept beside the recordings of the trials, where there are any."""
    name = work.folder.name if work is not None else trial.command
    command = redacted_arguments(["unstuck", *sys.argv[1:]])
    run = Run(id=name, command=command, started=time.time(), host=os.uname().nodename)
    report = report_on(Evidence(run=run, trial=trial))
    if work is not None and work.folder.is_dir():
        write_private(work.folder / "report.json", msgspec.json.encode(report))
        forget(work.folder, [Path(one.folder) for one in trial.rungs if one.status == PASS and one.folder], speak)
    return report


def printed(report: Report, arguments: argparse.Namespace, work: Work | None) -> None:
    """As JSON, the contract of every command."""
    kept = str(work.folder / "report.json") if work is not None and work.folder.is_dir() else None
    shown = report if arguments.with_evidence else msgspec.structs.replace(report, evidence=kept)
    print(render(shown))


def show_trial(report: Report, console: Console, folder: str, *, verbose: bool = False) -> None:
    """As the command showed it that made these trials."""
    trial = report.trial
    if trial is not None and trial.command == "doctor" and trial.settings is not None:
        show_doctor(report, notes(trial.settings), console, folder, verbose=verbose)
    elif trial is not None and trial.search is not None:
        show_tuning(report, console, folder, verbose=verbose)
    else:
        show_budget(report, console, folder, verbose=verbose)


def exit_code(report: Report) -> int:
    if report.findings:
        return FOUND
    return COULD_NOT_LOOK if report.state == "unknown" else 0
