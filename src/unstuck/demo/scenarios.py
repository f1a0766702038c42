"""Runs a scenario: a real small training under `unstuck run`, and tells whether the verdict is the expected one."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import UserError
from ..report import Report
from .surroundings import surroundings

PACKAGED = Path(__file__).parents[1] / "scenarios"
IN_CHECKOUT = Path(__file__).parents[3] / "scenarios"
STAND_IN = "nccl"  # a folder beside them, of a library that scenarios are run with
LIMIT = 240.0  # seconds: none of them takes a fifth of that on a slow machine
CORE = " (core)"


class Scenario(NamedTuple):
    """What the head of a scenario's file says."""

    name: str
    path: Path
    expect: str
    surroundings: dict[str, str]
    about: str
    launch: tuple[str, ...] = ()  # what Python runs it with: `-m torch.distributed.run --nproc-per-node 2`
    outside: str = ""  # the rule that a look from outside comes to, where it can know less
    trial: tuple[str, ...] = ()  # `doctor make_loader --only workers`: not a training but a loader to be tried
    check: tuple[str, ...] = ()  # `data --decode`: the script writes data where it stands, to be checked so
    core: bool = False  # `# expect: RULE (core)`: `make test` runs it and its healthy neighbour, too

    def command(self, python: str) -> list[str]:
        return [python, *self.launch, str(self.path)]


class Outcome(NamedTuple):
    """What came out."""

    report: Report
    folder: Path
    output: str

    def verdict(self) -> str:
        """The rules of all root causes, the first first, or the state where there is none."""
        roots = dict.fromkeys(one.rule for one in self.report.findings if one.role == "root")
        return ", ".join(roots) or self.report.state


def all_scenarios() -> dict[str, Scenario]:
    folder = PACKAGED if PACKAGED.is_dir() else IN_CHECKOUT
    return {
        one.name: one
        for path in sorted(folder.glob("*/*.py"))
        if path.parent.name != STAND_IN and (one := _head_of(path))
    }


def _head_of(path: Path) -> Scenario:
    """The first line says what is expected, the next may say where and how; the docstring tells the story."""
    lines = path.read_text().splitlines()
    marks = dict(line[2:].split(": ", 1) for line in lines[:4] if line.startswith("# ") and ": " in line)
    if "expect" not in marks:
        raise UserError(f"{path} does not say what it expects", "its first line has to be `# expect: RULE`")
    wanted = dict((word.partition("=")[::2]) for word in marks.get("environment", "").split())
    about = next((line.strip('"') for line in lines if line.startswith('"""')), "")
    expect = marks["expect"].removesuffix(CORE)
    launch, outside = tuple(marks.get("launch", "").split()), marks.get("outside", expect)
    trial = tuple(shlex.split(marks.get("trial", "")))
    check = tuple(shlex.split(marks.get("check", "")))
    core = marks["expect"] != expect
    return Scenario(path.stem.replace("_", "-"), path, expect, wanted, about, launch, outside, trial, check, core)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """For what a training that is killed leaves behind."""
    return tempfile.TemporaryDirectory(prefix="unstuck-", ignore_cleanup_errors=True)


def run(
    scenario: Scenario,
    base: Path,
    python: str = sys.executable,
    *,
    quiet: bool = True,
    variables: Mapping[str, str] | None = None,
) -> Outcome:
    """Run it for real and judge it; afterwards, if the scenario takes the watcher along."""
    if scenario.trial:
        return _try(scenario, base, python)
    if scenario.check:
        return _checked(scenario, base, python)
    with surroundings(scenario.surroundings) as around, scratch() as temporary:
        command = [
            *around.outside, sys.executable, "-m", "unstuck", "run", "--run-dir", str(base),
            "--on-stall", "stop-always", "--", *around.inside, *scenario.command(python),
        ]  # fmt: skip
        before = set(base.glob("*/run.json"))
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": temporary, **(variables or {})},
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
        made = sorted(set(base.glob("*/run.json")) - before)
        if not made:
            raise UserError(
                f"{scenario.name} left no run behind", (ended.stdout or "").strip()[-500:] or "run it alone"
            )
        folder = made[-1].parent
        report = _judged(folder)
    return Outcome(report, folder, ended.stdout or "")


def _try(scenario: Scenario, base: Path, python: str) -> Outcome:
    """A loader is tried by the command that its head names: `doctor CALLABLE OPTIONS`."""
    name, callable_, *options = scenario.trial
    target = [f"{scenario.path}:{callable_}"] if callable_ != "-" else []
    with surroundings(scenario.surroundings) as around, scratch() as temporary:
        ended = subprocess.run(
            [*around.outside, sys.executable, "-m", "unstuck", name, *target, *options, "--json", "--with-evidence",
             "--run-dir", str(base), "--python", python],
            env={**os.environ, "TMPDIR": temporary},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )  # fmt: skip
    if not ended.stdout:
        raise UserError(f"{scenario.name} was not judged", ended.stderr.strip()[-500:] or "run it alone")
    return Outcome(msgspec.json.decode(ended.stdout, type=Report), base, ended.stderr)


def _checked(scenario: Scenario, base: Path, python: str) -> Outcome:
    """Data is written by the script, and read by `unstuck check` as its head says."""
    with surroundings(scenario.surroundings) as around:
        subprocess.run([python, str(scenario.path)], cwd=base, capture_output=True, timeout=LIMIT, check=True)
        ended = subprocess.run(
            [*around.outside, sys.executable, "-m", "unstuck", "check", *scenario.check, "--json", "--with-evidence"],
            cwd=base,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    if not ended.stdout:
        raise UserError(f"{scenario.name} was not judged", ended.stderr.strip()[-500:] or "run it alone")
    return Outcome(msgspec.json.decode(ended.stdout, type=Report), base, ended.stderr)


def _judged(folder: Path) -> Report:
    """The verdict that `unstuck run` left, or, if it was taken along, the one that `unstuck why` gives."""
    saved = folder / "report.json"
    if saved.exists():
        return msgspec.json.decode(saved.read_bytes(), type=Report)
    command = [sys.executable, "-m", "unstuck", "why", str(folder), "--json", "--with-evidence"]
    said = subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT, check=False).stdout
    return msgspec.json.decode(said, type=Report)


def run_in_passing(scenario: Scenario, variables: Mapping[str, str] | None = None) -> Outcome:
    """The same in a folder that does not stay."""
    with tempfile.TemporaryDirectory(prefix="unstuck-") as base:
        return run(scenario, Path(base), variables=variables)
