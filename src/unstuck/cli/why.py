"""Judge a run that was recorded: a run folder, or a report that was saved.

    unstuck why unstuck-runs/train-20260501-031500-4242
    unstuck why report.json --json

Exit code 0: nothing found. 1: found. 2: could not look.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from ..diagnose import diagnose, report_on
from ..errors import UserError
from ..model.evidence import Evidence
from ..model.report import SCHEMA, Report
from ..views.as_json import render
from ..views.terminal import console_for, show
from .main import COULD_NOT_LOOK, FOUND


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="RUN", help="a run folder, or a saved report")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--with-evidence", action="store_true", help="with --json: put the evidence in")


def run(arguments: argparse.Namespace) -> int:
    target = Path(arguments.target)
    report = _judge(target)
    if arguments.json:
        shown = report if arguments.with_evidence else msgspec.structs.replace(report, evidence=str(target))
        print(render(shown))
    else:
        show(report, console_for(sys.stdout), str(target))
    if report.findings:
        return FOUND
    return COULD_NOT_LOOK if report.state == "unknown" else 0


def _judge(target: Path) -> Report:
    if target.is_dir():
        return diagnose(target)
    if not target.exists():
        raise UserError(f"{target} does not exist", f"name a run folder{_newest()}")
    return _judge_again(target)


def _judge_again(file: Path) -> Report:
    """A saved report carries its evidence: newer rules may see more in it."""
    try:
        saved = msgspec.json.decode(file.read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError) as error:
        remedy = "name a run folder, or the report.json in one"
        raise UserError(f"{file} is not a report of unstuck ({error})", remedy) from error
    if saved.schema > SCHEMA:
        raise UserError(f"{file} was written by a newer unstuck (schema {saved.schema})", "upgrade unstuck here")
    return report_on(saved.evidence) if isinstance(saved.evidence, Evidence) else saved


def _newest() -> str:
    runs = sorted(Path("unstuck-runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    return f"; the newest here is {runs[-1].parent}" if runs else " such as unstuck-runs/NAME"
