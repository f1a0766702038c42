"""Run a small broken training under unstuck and show the verdict.

    unstuck demo
    unstuck demo shm-exhausted
    unstuck demo --list

Exit code 0: the verdict is the expected one. The training needs torch: it runs with this Python, with the first on PATH
that has it, or with --python.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
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
from ..wording.language import word
from .arguments import add_view_arguments
from .main import COULD_NOT_LOOK, FOUND
from .target import show_trial

DEFAULT = "worker-python-exception"
ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
PATIENCE = 20.0  # seconds in which a Python says whether it has torch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenario", nargs="?", default=DEFAULT, metavar="SCENARIO", help=f"what to run (default: {DEFAULT})"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--python", metavar="PATH", help="a Python that has torch (default: this one, or one on PATH)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON instead")
    add_view_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    scenarios = all_scenarios()
    if arguments.list:
        table = Table.grid(padding=(0, 2))
        for one in scenarios.values():
            table.add_row(f"[bold]{one.name}[/]", one.about)
        console_for(sys.stdout).print(table)
        return 0
    if arguments.scenario not in scenarios:
        raise UserError(f"there is no scenario {arguments.scenario!r}", "`unstuck demo --list` lists them")
    arguments.python = arguments.python or _with_torch()
    return _play(scenarios[arguments.scenario], arguments)


def _with_torch() -> str:
    """This Python; where unstuck lives in an environment of its own, the one that the user's shell would take."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    folders = [Path(os.environ[name]) / "bin" for name in ENVIRONMENTS if os.environ.get(name)]
    folders += [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for candidate in (str(folder / name) for folder in folders for name in ("python", "python3")):
        if shutil.which(candidate) and _has_torch(candidate):
            return candidate
    raise UserError(
        "neither this Python nor any on PATH has torch", "name one that has it: unstuck demo --python /path/to/python"
    )


def _has_torch(python: str) -> bool:
    try:
        return (
            subprocess.run([python, "-c", HAS_TORCH], capture_output=True, timeout=PATIENCE, check=False).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


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
        console, verbose = console_for(sys.stderr, plain=arguments.plain), arguments.verbose
        if arguments.json:
            print(render(msgspec.structs.replace(outcome.report, evidence=None)))
        elif scenario.check:
            show_check(outcome.report, console, verbose=verbose)
        elif scenario.trial:
            show_trial(outcome.report, console, "", verbose=verbose)
        elif "container" in scenario.surroundings:
            print(
                f"\n{word('The watcher was killed with the run. Judged afterwards:')}\n$ unstuck why RUN\n",
                file=sys.stderr,
            )
            show(outcome.report, console, verbose=verbose)
    verdict = outcome.verdict()
    if verdict == scenario.expect:
        return 0
    print(f"unstuck: expected {scenario.expect}, but the verdict is {verdict}", file=sys.stderr)
    return FOUND if outcome.report.findings else COULD_NOT_LOOK
