"""docs/coverage.md accounts for every capability number, and what it calls done exists."""

from __future__ import annotations

import pkgutil
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import unstuck
from unstuck.cli.main import COMMANDS
from unstuck.rules.discovery import all_rules

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coverage.md"
# The last number of each series: S capabilities, D mistakes not to repeat, X what the accounts left out.
LAST = {
    "S0": 52, "S1": 95, "S2": 56, "S3": 65, "S4": 60,
    "D0": 3, "D1": 6, "D2": 6, "D3": 6, "D4": 4,
    "X0": 3, "X1": 1, "X2": 1, "X3": 1, "X4": 2,
}  # fmt: skip
KNOWN = {f"{series}.{number}" for series, last in LAST.items() for number in range(1, last + 1)}
STATE = re.compile(r"done|issue \d+|better: \S.*")
FOLDERS = ("src/", "docs/", "tests/", "scenarios/", "benchmarks/")


class Line(NamedTuple):
    number: str
    what: str
    by: str
    state: str


def lines() -> list[Line]:
    rows = [row for row in PAGE.read_text().splitlines() if re.match(r"\| [SDX]\d", row)]
    return [Line(*(cell.strip() for cell in row.strip("|").split("|"))) for row in rows]


def named(line: Line) -> list[str]:
    return re.findall(r"`([^`]+)`", line.by)


def exists(name: str) -> bool:
    """A rule, `unstuck COMMAND`, a file of the project, or something that can be imported from unstuck."""
    if name.startswith("unstuck "):
        return name.split()[1] in COMMANDS
    if name.startswith(FOLDERS):
        return (ROOT / name).is_file()
    return can_be_imported(name) if name.startswith("unstuck.") else name in all_rules()


def can_be_imported(name: str) -> bool:
    """`unstuck.watch` of the public API, or a field such as `unstuck.evidence.Loader.length`."""
    if name.count(".") == 1:
        return name.partition(".")[2] in unstuck.__all__
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_number_has_its_line() -> None:
    assert KNOWN - {line.number for line in lines()} == set()


def test_no_number_is_doubled() -> None:
    assert [number for number, times in Counter(line.number for line in lines()).items() if times > 1] == []


def test_no_number_is_made_up() -> None:
    assert {line.number for line in lines()} - KNOWN == set()


def test_every_state_is_done_or_an_issue_or_better_with_a_reason() -> None:
    assert [line.number for line in lines() if not STATE.fullmatch(line.state)] == []


def test_every_line_says_what_it_is_and_what_delivers_it() -> None:
    assert [line.number for line in lines() if not line.what or not line.by] == []


def test_a_done_line_names_something() -> None:
    assert [line.number for line in lines() if line.state == "done" and not named(line)] == []


def test_what_a_done_line_names_exists() -> None:
    done = [line for line in lines() if line.state == "done"]
    assert [(line.number, name) for line in done for name in named(line) if not exists(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "no-such-rule",
        "unstuck nothing",
        "src/unstuck/nothing.py",
        "unstuck.nothing",
        "unstuck.evidence.Loader.nothing",
    ],
)
def test_a_name_that_leads_nowhere_is_noticed(name: str) -> None:
    assert not exists(name)
