"""docs/coverage.md accounts for every capability number, by names that a user meets and that exist."""

from __future__ import annotations

import argparse
import ast
import re
import types
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

import unstuck
from unstuck.cli.main import COMMANDS
from unstuck.report import Report
from unstuck.rules.discovery import all_rules

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "coverage.md"
# The last number of each series: S capabilities, D mistakes not to repeat, X what the accounts left out.
LAST = {
    "S0": 52, "S1": 95, "S2": 56, "S3": 65, "S4": 60,
    "D0": 3, "D1": 6, "D2": 6, "D3": 6, "D4": 4,
    "X0": 3, "X1": 1, "X2": 1, "X3": 1, "X4": 2,
}  # fmt: skip
KNOWN = {f"{series}.{number}" for series, last in LAST.items() for number in range(1, last + 1)}
STATE = re.compile(r"done|issue \d+|better: \S.*")

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TAG = re.compile(r"\[[A-Z][A-Z_]{3,}\]")
RULE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
FIELD = re.compile(r"[a-z]\w*(?:\[\])?(?:\.[a-z]\w*(?:\[\])?)*")
OF_LOGGERS = {"[WANDB]", "[TENSORBOARD]", "[MLFLOW]"}  # a logger's name, in capitals
SOURCE_FOLDERS = ("src", "tests", "scenarios", "benchmarks")
USERS_FILES = re.compile(r"\b(?:train|data)\.py\b")  # in lines of a log, as an example


class Line(NamedTuple):
    number: str
    what: str
    by: str
    state: str


def lines() -> list[Line]:
    rows = [row for row in PAGE.read_text().splitlines() if re.match(r"\| [SDX]\d", row)]
    return [Line(*(cell.strip() for cell in row.strip("|").split("|"))) for row in rows]


def named(line: Line) -> list[str]:
    return CODE.findall(LINK.sub("", line.by))


def exists(name: str) -> bool:
    """A command with its options, a name of the API, a rule, a field of `--json`, or a line of the logs."""
    if name.startswith("unstuck "):
        return is_command(name.split()[1:])
    if name.startswith("unstuck."):
        return name.removeprefix("unstuck.") in unstuck.__all__
    if RULE.fullmatch(name):
        return name in all_rules()
    if FIELD.fullmatch(name):
        return name.split(".")[0].removesuffix("[]") in documented_fields() and is_field(Report, name)
    return any(name in mark for mark in marks())


def is_command(words: list[str]) -> bool:
    """Every option is known to the command's own parser, and what follows it is one of its choices."""
    if words[0] not in COMMANDS:
        return False
    parser = argparse.ArgumentParser()
    import_module(f"unstuck.cli.{words[0]}").add_arguments(parser)
    options = parser._option_string_actions
    given = [(word, after) for word, after in pairwise([*words[1:], "-"]) if word.startswith("-")]
    return all(word in options and may_follow(options[word], after) for word, after in given)


def may_follow(option: argparse.Action, word: str) -> bool:
    return word.startswith("-") or not option.choices or word in option.choices


def is_field(kind: Any, path: str) -> bool:
    """`findings[].cause`: a list where brackets say so, and a field of what is in it."""
    name, _, rest = path.partition(".")
    bare = name.removesuffix("[]")
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)) or bare not in kind.__struct_fields__:
        return False
    kinds = alternatives(get_type_hints(kind)[bare])
    if name != bare:
        kinds = [get_args(one)[0] for one in kinds if get_origin(one) is list]
    return any(is_field(one, rest) for one in kinds) if rest else bool(kinds)


def alternatives(hint: Any) -> list[Any]:
    return list(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else [hint]


def first_cells(page: Path) -> Iterator[str]:
    """What the rows of a page's tables are about, in backquotes."""
    for row in page.read_text().splitlines():
        if row.startswith("| "):
            yield from CODE.findall(row.split(" | ")[0])


@cache
def documented_fields() -> set[str]:
    return set(first_cells(DOCS / "verdicts.md"))


@cache
def marks() -> set[str]:
    """Lines of a log, as its page shows them."""
    return set(CODE.findall(prose(DOCS / "logs.md")))


@cache
def written() -> str:
    """Every text that the writers of the logs have."""
    sources = sorted((ROOT / "src" / "unstuck" / "logs").glob("*.py"))
    nodes = [node for source in sources for node in ast.walk(ast.parse(source.read_text()))]
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def prose(page: Path) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def leads_somewhere(link: str) -> bool:
    """A page of ours, and a section that it has."""
    path, _, section = link.partition("#")
    page = DOCS / path
    return page.is_file() and (not section or section in sections(page))


@cache
def sections(page: Path) -> set[str]:
    """As links name them: words in lower case, joined by hyphens."""
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def is_of_the_inside(line: Line) -> bool:
    """It names a source file, or something that only our own code can import."""
    text = f"{line.by} {line.state}"
    pages = LINK.sub(lambda link: "" if link[1].partition("#")[0].endswith(".md") else link[0], text)
    paths = any(f"{folder}/" in pages for folder in SOURCE_FOLDERS)
    return paths or ".py" in USERS_FILES.sub("", pages) or re.search(r"\bunstuck\.\w+\.\w", pages) is not None


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
    done = [line for line in lines() if line.state == "done"]
    assert [line.number for line in done if not named(line) and not LINK.search(line.by)] == []


def test_what_a_line_names_exists() -> None:
    assert [(line.number, name) for line in lines() for name in named(line) if not exists(name)] == []


def test_a_page_that_a_line_names_has_that_section() -> None:
    links = [(line.number, link) for line in lines() for link in LINK.findall(line.by)]
    assert [(number, link) for number, link in links if not leads_somewhere(link)] == []


def test_no_line_names_a_source_file_or_an_inner_module() -> None:
    assert [line.number for line in lines() if is_of_the_inside(line)] == []


def test_a_tag_that_a_line_names_is_written_by_the_logs() -> None:
    tags = {(line.number, tag) for line in lines() for name in named(line) for tag in TAG.findall(name)}
    assert tags
    assert [(number, tag) for number, tag in sorted(tags) if tag not in written() and tag not in OF_LOGGERS] == []


@pytest.mark.parametrize(
    "name",
    [
        "unstuck logs --level ERROR -f",
        "unstuck run --on-stall stop",
        "unstuck doctor --only no-workers",
        "unstuck.stage",
        "worker-oom-killed",
        "notes",
        "findings[].remedy.commands",
        "evidence.host[].samples",
        "[DATA_FLOW]",
        "Checkpoint saved: …",
    ],
)
def test_a_name_that_a_user_meets_is_known(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize(
    "name",
    [
        "no-such-rule",
        "unstuck nothing",
        "unstuck logs --nothing",
        "unstuck run --on-stall nothing",
        "unstuck.nothing",
        "unstuck.evidence",
        "nothing",
        "findings.cause",
        "findings[].nothing",
        "schema[]",
        "[NOTHING]",
        "Nothing saved: …",
    ],
)
def test_a_name_that_leads_nowhere_is_noticed(name: str) -> None:
    assert not exists(name)


@pytest.mark.parametrize("link", ["nothing.md", "logs.md#nothing", "rules"])
def test_a_link_that_leads_nowhere_is_noticed(link: str) -> None:
    assert not leads_somewhere(link)


@pytest.mark.parametrize(
    "by",
    [
        "`src/unstuck/report.py`",
        "[the report](../src/unstuck/report.py)",
        "`unstuck.evidence.process.Loader`",
        "tests/test_docs.py",
        "`marks.py`",
    ],
)
def test_a_line_about_the_inside_is_noticed(by: str) -> None:
    assert is_of_the_inside(Line("S0.1", "what", by, "done"))


@pytest.mark.parametrize("by", ["`unstuck.stage`", "[tried](../benchmarks/README.md#tuning)", "barrier at train.py:40"])
def test_a_line_about_what_a_user_meets_is_none_about_the_inside(by: str) -> None:
    assert not is_of_the_inside(Line("S0.1", "what", by, "done"))
