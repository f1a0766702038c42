"""Run a small broken training under unstuck and show the verdict.

    unstuck demo
    unstuck demo shm-exhausted
    unstuck demo --list

Exit code 0 when the verdict is the expected one. The training needs torch: it runs in this Python, or in --python.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
from rich.table import Table

from ..demo.scenarios import Scenario, all_scenarios
from ..demo.scenarios import run as run_scenario
from ..demo.surroundings import Unavailable
from ..errors import UserError
from ..views.as_json import render
from ..views.checks import show_check
from ..views.console import console_for
from ..views.terminal import show
from .main import COULD_NOT_LOOK, FOUND
from .target import show_trial

DEFAULT = "worker-python-exception"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="?", default=DEFAULT, metavar="SCENARIO", help=f"which (default: {DEFAULT})")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="a Python that has torch")
    parser.add_argument("--json", action="store_true", help="print the report as JSON instead")


def run(arguments: argparse.Namespace) -> int:
    scenarios = all_scenarios()
    if arguments.list:
        table = Table.grid(padding=(0, 2))
        for one in scenarios.values():
            table.add_row(f"[bold]{one.name}[/]", one.about)
        console_for(sys.stdout).print(table)
        return 0
    if arguments.scenario not in scenarios:
        raise UserError(f"there is no scenario {arguments.scenario!r}", "`unstuck demo --list` shows them")
    if arguments.python == sys.executable and importlib.util.find_spec("torch") is None:
        raise UserError("this Python has no torch", "name one that has it: unstuck demo --python /path/to/python")
    return _play(scenarios[arguments.scenario], arguments)


def _command(scenario: Scenario) -> str:
    if scenario.check:
        return f"python {scenario.path.name} && unstuck check {' '.join(scenario.check)}"
    if scenario.trial:
        command, name, *options = scenario.trial
        return " ".join(["unstuck", command, *([f"{scenario.path.name}:{name}"] if name != "-" else []), *options])
    return " ".join(["unstuck run -- python", *scenario.launch, scenario.path.name])


def _play(scenario: Scenario, arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="unstuck-demo-") as base:
        # As a script of the user's own: inside the installed package it would pass for library code.
        scenario = scenario._replace(path=Path(shutil.copy(scenario.path, base)))
        if not arguments.json:
            print(f"{scenario.about}\n$ {_command(scenario)}\n", file=sys.stderr, flush=True)
        try:
            outcome = run_scenario(scenario, Path(base), arguments.python, quiet=arguments.json)
        except Unavailable as reason:
            raise UserError(f"{scenario.name} cannot be shown here", f"it {reason}") from reason
        if arguments.json:
            print(render(msgspec.structs.replace(outcome.report, evidence=None)))
        elif scenario.check:
            show_check(outcome.report, console_for(sys.stderr))
        elif scenario.trial:
            show_trial(outcome.report, console_for(sys.stderr), "")
        elif "container" in scenario.surroundings:
            print("\nThe watcher is gone with the run. Judged afterwards:\n$ unstuck why RUN\n", file=sys.stderr)
            show(outcome.report, console_for(sys.stderr))
    verdict = outcome.verdict()
    if verdict == scenario.expect:
        return 0
    print(f"unstuck: expected {scenario.expect}, but the verdict is {verdict}", file=sys.stderr)
    return FOUND if outcome.report.findings else COULD_NOT_LOOK
