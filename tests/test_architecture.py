"""The shape of the code: who may import whom, how long a file may be, what a rule's file has to say."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from unstuck.rules.discovery import HEADINGS, THREADS

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "unstuck"
LONGEST, LONGEST_RULE = 600, 300
VAGUE = {"utils", "common", "helpers", "base", "manager"}
# Folders whose files are named after what they adapt, judge or read: these names are elsewhere, too, as they should be.
PARALLEL = ("inside/adapters", "rules", "checking/formats")
# Names that modules of several rooms have where that says nothing: whoever looks for one finds another. Only lower it.
SHARED_NAMES = 23

# Who may import whom: by folder, or file, directly below src/unstuck. A folder may always import itself.
# "" is the package's own __init__, where the version stands. What EVERYBODY may import imports nothing of ours, but for
# `wording`, which may know how evidence is built.
MAY_IMPORT: dict[str, set[str]] = {
    "": {"diagnose", "inside.api", "logs.to_logging", "evidence", "report", "recording"},  # for type checkers
    "__main__": {"cli"},
    "errors": set(),
    "safe_files": set(),
    # What is ours and whether it lives is told by names and marks.
    "retention": {"inside.format", "inside.core.run_folder"},
    "evidence": set(),  # the vocabulary
    "wording": {"evidence", "inside.redaction"},
    "report": {"evidence"},
    "analysis": {"evidence", "report"},  # what several rules conclude
    "rules": {"evidence", "analysis", "report"},  # a rule judges saved evidence: offline, in tests, anywhere
    "reporting": {"evidence", "analysis", "report"},
    "inside": set(),  # runs in the user's process, under another name, perhaps without unstuck around it
    "recording": {"inside.api"},  # for type checkers: the public API's way in must cost nothing
    "recordings": {
        "evidence",
        "inside.format",
        "inside.core.run_folder",
    },  # a run folder's files are told by their names
    # A look goes on where something stands, and a snapshot is a report that was kept.
    "probes": {
        *("evidence", "report", "recordings", "checking", "inside.format", "inside.core.run_folder"),
        *("analysis.stacks", "analysis.standstill", "analysis.endless_loops", "analysis.case", "analysis.rank_deaths"),
    },
    # Written beside a run without numpy, whose threads would take the watcher's signals: tests/test_import_cost.py.
    "logs": {"evidence", "report", "recordings", "inside.format", "inside.core.run_folder"},
    "views": {"evidence", "report"},  # a view that computes cannot be trusted
    "diagnose": {"", "evidence", "analysis", "report", "reporting", "recordings", "probes", "rules"},
    # The same reading serves a check, a cluster, and a run that had trouble with a file.
    "checking": {"evidence", "analysis.data_files", "retention", "inside.core.run_folder"},
    # The naming of run folders is shared with the process that makes a run from inside.
    "watching": {
        *("evidence", "analysis", "report", "recordings", "probes", "logs", "diagnose", "retention"),
        *("inside.format", "inside.core.run_folder"),
    },
    # A trial is a recorded run: it is watched and judged like any other.
    "trials": {
        *("evidence", "analysis", "report", "recordings", "probes", "logs", "watching", "diagnose", "retention"),
        *("inside.format", "inside.core.run_folder"),
    },
    "demo": {"report"},  # a scenario is run by the command line, as a user runs it
}
EVERYTHING = {"cli"}
# The one error for people, one way to open what others may have made, one redaction, one way to show a name.
EVERYBODYS = ("errors", "safe_files", "inside.redaction", "wording")


class Import(NamedTuple):
    """One imported module. `when` is "start", "call" (inside a function) or "types" (under TYPE_CHECKING)."""

    by: str
    module: str
    when: str
    relative: bool


def name_of(path: Path) -> str:
    """`rules.engine` for src/unstuck/rules/engine.py; "" for the package itself."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(folder: Path = SRC) -> list[Path]:
    return sorted(folder.rglob("*.py"))


MODULES = {name_of(path) for path in sources()}


@cache
def imports_of(path: Path) -> list[Import]:
    return list(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    for node, when in walk(ast.parse(path.read_text()), "start"):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name_of(path), alias.name, when, relative=False)
        elif isinstance(node, ast.ImportFrom):
            source, relative = absolute(node, path), node.level > 0
            for alias in node.names:
                deeper = f"{source}.{alias.name}".lstrip(".")
                is_module = (relative or source.startswith("unstuck")) and inner(deeper) in MODULES
                yield Import(name_of(path), deeper if is_module else source, when, relative)


def walk(node: ast.AST, when: str) -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(node):
        below = when
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            below = "call"
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            below = "types"
        yield child, below
        yield from walk(child, below)


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """Where a `from … import` looks; a relative one as a dotted name that begins with unstuck."""
    if not node.level:
        return node.module or ""
    package = ["unstuck", *path.relative_to(SRC).parts[:-1]]
    return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])


def inner(module: str) -> str | None:
    """`rules.engine` for `unstuck.rules.engine`; None for what is not ours."""
    return None if module.partition(".")[0] != "unstuck" else module.partition(".")[2]


def ours() -> list[tuple[str, str, str]]:
    """Every import of one of our modules by another: who, whom, when."""
    found = [(one.by, inner(one.module), one.when) for path in sources() for one in imports_of(path)]
    return [(by, target, when) for by, target, when in found if target is not None]


def allowed(by: str, target: str) -> bool:
    home = by.partition(".")[0]
    if home in EVERYTHING or (home and target.partition(".")[0] == home):
        return True
    if home not in ("inside", "evidence", *EVERYBODYS) and any(
        f"{target}.".startswith(f"{part}.") for part in EVERYBODYS
    ):
        return True
    return any(target == part or (part and target.startswith(f"{part}.")) for part in MAY_IMPORT[home])


def cycle_in(edges: dict[str, set[str]]) -> list[str]:
    """One circle of modules that import each other when they start, if there is any."""
    done: set[str] = set()

    def follow(module: str, way: list[str]) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return []
        for target in sorted(edges.get(module, ())):
            circle = follow(target, [*way, module])
            if circle:
                return circle
        done.add(module)
        return []

    return next((circle for module in sorted(edges) if (circle := follow(module, []))), [])


def test_every_part_of_the_package_has_its_place_in_the_table() -> None:
    parts = {name.partition(".")[0] for name in MODULES}
    assert parts == set(MAY_IMPORT) | EVERYTHING


def test_imports_keep_to_the_table() -> None:
    assert sorted({f"{by} imports {target}" for by, target, _ in ours() if not allowed(by, target)}) == []


FORBIDDEN = [
    ("rules.loader.worker_killed", "probes.machine"),
    ("views.terminal", "rules.engine"),
    ("report", "rules"),
    ("evidence.loader", "wording.text"),
    ("views.terminal", "analysis.progress"),
    ("inside.api", "evidence"),
    ("diagnose", "views.terminal"),
    ("watching.recorded_run", "inside.start"),
    ("probes.machine", "rules"),
]


@pytest.mark.parametrize(("by", "target"), FORBIDDEN)
def test_the_table_forbids_what_the_design_forbids(by: str, target: str) -> None:
    assert not allowed(by, target)


def test_imports_are_seen_wherever_they_stand() -> None:
    seen = set(ours())
    assert ("diagnose", "rules.engine", "start") in seen
    assert ("", "recording", "types") in seen
    assert any(one.when == "call" and one.module == "importlib" for one in imports_of(SRC / "__init__.py"))


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for by, target, when in ours():
        if when == "start" and by != target:
            edges.setdefault(by, set()).add(target)
    assert cycle_in(edges) == []


def test_a_circle_is_noticed() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_the_way_into_the_api_imports_nothing_of_ours_at_the_start() -> None:
    assert [target for by, target, when in ours() if by in ("", "recording") and when == "start"] == []


def test_inside_imports_only_the_standard_library_and_itself() -> None:
    # The name it is loaded under in the user's process, and the user's own start-up file that it gives way to.
    own = {"_unstuck_inside", "sitecustomize"}
    foreign = {
        (one.by, one.module)
        for path in sources(SRC / "inside")
        for one in imports_of(path)
        if not one.relative and one.module.partition(".")[0] not in sys.stdlib_module_names | own
    }
    assert foreign == set()


def test_what_runs_in_a_trial_imports_only_the_standard_library_torch_and_itself() -> None:
    foreign = {
        (one.by, one.module)
        for path in sources(SRC / "trials" / "child")
        for one in imports_of(path)
        if one.module.partition(".")[0] not in sys.stdlib_module_names | {"torch"}
        and not (inner(one.module) or "").startswith("trials.child")
    }
    assert foreign == set()


def test_no_file_is_longer_than_it_may_be() -> None:
    files = [path for folder in ("src", "tests", "benchmarks") for path in sources(ROOT / folder)]
    assert {str(path.relative_to(ROOT)) for path in files if len(path.read_text().splitlines()) > LONGEST} == set()
    assert [path.name for path in rule_files() if len(path.read_text().splitlines()) > LONGEST_RULE] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    files = [path.relative_to(ROOT) for folder in ("src", "tests", "benchmarks") for path in sources(ROOT / folder)]
    assert [str(path) for path in files if VAGUE & {path.stem, *path.parts[:-1]}] == []


def shared_names() -> dict[str, list[str]]:
    """Names of modules that are there more than once, with all of these modules."""
    homes: dict[str, list[str]] = {}
    for path in sources():
        where = path.relative_to(SRC)
        if not path.stem.startswith("__") and not any(where.is_relative_to(folder) for folder in PARALLEL):
            homes.setdefault(path.stem, []).append(name_of(path))
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


def test_fewer_and_fewer_modules_share_a_name() -> None:
    shared = shared_names()
    assert len(shared) <= SHARED_NAMES, shared


def test_every_module_says_what_it_holds() -> None:
    assert [name_of(path) for path in sources() if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_every_folder_is_a_package_but_the_one_that_is_put_on_the_path() -> None:
    folders = {path.parent for path in sources() if not (path.parent / "__init__.py").exists()}
    assert folders == {SRC / "inside" / "bootstrap"}


def rule_files() -> list[Path]:
    return [path for path in sorted((SRC / "rules").glob("*/*.py")) if not path.name.startswith("_")]


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: path.stem)
def test_a_rule_explains_itself_under_the_same_headings_as_all(path: Path) -> None:
    first, *sections = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n## ")
    assert first.strip().endswith("."), "the first line says in one sentence what is wrong"
    assert "\n" not in first.strip(), "the first sentence has a line of its own"
    assert tuple(section.partition("\n")[0] for section in sections) in (HEADINGS, (*HEADINGS, THREADS))
    assert all(section.partition("\n")[2].strip() for section in sections), "a heading has nothing below it"


# What is about no room of src/unstuck alone.
ABOUT_ALL = {
    "any_folder", "architecture", "capture", "coverage_map", "docs", "import_cost", "nccl", "public_api", "retention",
    "scenarios", "second_try", "site", "tree", "unprepared",
}  # fmt: skip


def test_tests_lie_in_the_folder_of_the_room_that_they_are_about() -> None:
    tests = ROOT / "tests"
    rooms = {path.name for path in (ROOT / "src" / "unstuck").iterdir() if path.is_dir()} | {"benchmarks", "fuzzing"}

    assert {path.stem.removeprefix("test_") for path in tests.glob("test_*.py")} == ABOUT_ALL
    assert {path.relative_to(tests).parts[0] for path in tests.rglob("*/test_*.py")} <= rooms
