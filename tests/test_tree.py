"""The annotated tree in docs/architecture.md names what is there, and all of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BRANCHES = re.compile(r"^[\s│├└─]*")
DEEPER = 8  # columns: what begins further right than this below a name goes on with its description


def tree_lines(text: str) -> list[str]:
    """The fenced block that shows the project's files."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    trees = [block for block in blocks if block.startswith("unstuck/") or "src/unstuck/" in block]
    return trees[0].splitlines() if trees else []


def paths_in(lines: list[str]) -> list[str]:
    """The tree's entries as paths from the project's root; a placeholder such as <family>/ stands for nothing."""
    above: list[tuple[int, str]] = []
    found: list[str] = []
    for line in lines:
        column = len(BRANCHES.match(line)[0])  # type: ignore[index]
        name = line[column:].split(" ")[0]
        if not name or (above and column > above[-1][0] + DEEPER):
            continue
        if name == "unstuck/" and not above:
            continue
        above = [one for one in above if one[0] < column]
        path = f"{above[-1][1]}/{name}" if above else name
        above.append((column, path.rstrip("/")))
        found.append(re.sub(r"[^/]*[<>*…].*", "", path).rstrip("/"))
    return [path for path in found if path]


@pytest.fixture(scope="module")
def tree() -> list[str]:
    lines = tree_lines((ROOT / "docs" / "architecture.md").read_text())
    assert lines, "docs/architecture.md has no tree: a fenced block that contains src/unstuck/"
    return paths_in(lines)


def test_the_tree_names_only_what_exists(tree: list[str]) -> None:
    assert [path for path in tree if not (ROOT / path).exists()] == []


def test_the_tree_names_every_part_of_the_package(tree: list[str]) -> None:
    source = ROOT / "src" / "unstuck"
    folders = {f"src/unstuck/{one.name}" for one in source.iterdir() if one.is_dir() and one.name != "__pycache__"}
    assert folders - set(tree) == set()


def test_the_tree_names_every_folder_of_the_project(tree: list[str]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("needs a git checkout, to know which folders belong to the project")
    tops = {path.partition("/")[0] for path in listed.stdout.splitlines() if "/" in path}
    shown = {path.partition("/")[0] for path in tree}
    assert {top for top in tops if not top.startswith(".")} - shown == set()


def test_a_tree_is_read_by_its_indentation() -> None:
    text = """
before
```
unstuck/
  README.md          what it is
  src/unstuck/
    rules/<family>/  one file per failure,
                     found by folder
    views/           for people
  docs/
```
"""
    assert paths_in(tree_lines(text)) == ["README.md", "src/unstuck", "src/unstuck/rules", "src/unstuck/views", "docs"]


def test_a_drawn_tree_is_read_the_same() -> None:
    text = "```\nsrc/unstuck/\n├── rules/     judge\n│   └── host/\n└── cli/       the door\n```\n"
    assert paths_in(tree_lines(text)) == [
        "src/unstuck",
        "src/unstuck/rules",
        "src/unstuck/rules/host",
        "src/unstuck/cli",
    ]
