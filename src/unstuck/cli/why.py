"""Say why a run is stuck, slow or dead: a live run by any of its pids, a recorded run by its folder, or a saved report.

    unstuck why                 list the trainings on this machine and what each is doing
    unstuck why 4242            look at the run that process 4242 belongs to; nothing needs to be installed in it
    unstuck why 4242 --seconds 10
    unstuck why unstuck-runs/train-20260501-031500-4242
    unstuck why report.json --json

Exit code 0: nothing found. 1: a cause, or a stall without a known cause. 2: no such run, or too little to judge by.
"""

from __future__ import annotations

import argparse
import stat
import sys
from pathlib import Path

import msgspec

from ..diagnose import diagnose_live, diagnose_run, report_on, trainings
from ..errors import UserError
from ..evidence import Evidence
from ..report import SCHEMA, Report
from ..safe_files import NotPlainError, read_document
from ..views.as_json import render
from ..views.checks import show_check
from ..views.console import console_for
from ..views.listing import as_json, show_trainings
from ..views.progress import Progress
from ..views.terminal import STAGES, START, show
from .arguments import add_view_arguments, newest_run, seconds
from .main import COULD_NOT_LOOK, FOUND
from .target import show_trial


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="a pid, a run folder or a saved report; without it, the trainings are listed",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=0.0,
        metavar="N",
        help="with a pid: also sample for N seconds where the time goes",
    )
    parser.add_argument(
        "--start", action="store_true", help="show what each rank did before its first step, phase by phase"
    )
    parser.add_argument("--stages", action="store_true", help="show where the time of loading goes, stage by stage")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--with-evidence", action="store_true", help="with --json: include the evidence")
    add_view_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.target is None:
        return _list(arguments)
    if arguments.seconds and not arguments.target.isdigit():
        raise UserError("--seconds samples a live run", "name a pid, as in `unstuck why 4242 --seconds 10`")
    report = _judge(arguments.target, arguments.seconds)
    if arguments.json:
        shown = report if arguments.with_evidence else msgspec.structs.replace(report, evidence=arguments.target)
        print(render(shown))
    else:
        more = tuple(name for name in (START, STAGES) if getattr(arguments, name))
        console, verbose = console_for(sys.stdout, plain=arguments.plain), arguments.verbose
        if report.trial is not None:
            show_trial(report, console, arguments.target, verbose=verbose)
        elif report.data is not None and not report.data.of_run:
            show_check(report, console, verbose=verbose)
        else:
            show(report, console, _folder(report, arguments.target), more, verbose=verbose)
    if report.findings or report.unsettled:
        return FOUND
    return COULD_NOT_LOOK if report.state == "unknown" else 0


def _list(arguments: argparse.Namespace) -> int:
    with Progress() as tell:
        found = trainings(tell)
    if arguments.json:
        print(as_json(found))
    else:
        show_trainings(found, console_for(sys.stdout, plain=arguments.plain))
    return 0


def _judge(target: str, seconds: float) -> Report:
    path = Path(target)
    if path.is_dir() and not (path / "run.json").exists() and (path / "report.json").exists():
        return _judge_again(path / "report.json")  # of trials, which have a run each, or of a check
    if path.is_dir():
        with Progress() as tell:
            return diagnose_run(path, tell)
    if target.isdigit() and not path.exists():
        with Progress() as tell:
            return diagnose_live(int(target), tell, seconds=seconds)
    if not path.exists():
        raise UserError(f"{path} does not exist", f"name a pid or a run folder{_newest()}")
    return _judge_again(path)


def _judge_again(file: Path) -> Report:
    """A saved report carries its evidence: newer rules may see more in it."""
    remedy = "name a run folder, or the report.json in one"
    try:
        saved = msgspec.json.decode(_bytes_of(file), type=Report)
    except NotPlainError as error:
        raise UserError(str(error), remedy) from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file} is not an unstuck report ({error})", remedy) from error
    if saved.schema > SCHEMA:
        raise UserError(f"{file} was written by a newer unstuck (schema {saved.schema})", "upgrade unstuck here")
    return report_on(saved.evidence) if isinstance(saved.evidence, Evidence) else saved


def _bytes_of(file: Path) -> bytes:
    """The user named it, perhaps by a link of his own; but nothing other than a file is opened."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise NotPlainError(file, "not a file")
    return read_document(file, follow=True)


def _folder(report: Report, target: str) -> str:
    evidence = report.evidence
    return evidence.run.folder if target.isdigit() and isinstance(evidence, Evidence) else target


def _newest() -> str:
    run = newest_run()
    return f"; the newest here is {run}" if run else " such as unstuck-runs/NAME"
