"""Every command that is offered for pasting: a name in it is one word, whatever the name is."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kept import KEPT
from unstuck import rules
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence
from unstuck.evidence.finding import Finding
from unstuck.rules.discovery import all_rules
from unstuck.wording.printable import printable, quoted

FOUND = sorted(KEPT.glob("*/found.json"))
HOSTILE = ";touch${IFS}PWNED;#' $(touch PWNED) `touch PWNED`\"&|x "
PARTS = ("touch${IFS}PWNED", "$(touch PWNED)", "`touch PWNED`")
PATH = re.compile(
    r"(?:/|\w+://|[\w.-]+/)[^\s:'\"]+|[\w-]+\.(?:tar|png|jpg|jpeg|parquet|jsonl|npy|pt|ckpt|bin)|/\S+\.py:\w+|data"
)
BASH = shutil.which("bash") or "/bin/bash"


def hostile(evidence: Any) -> Any:
    """The same evidence from a machine on which all files and folders have names that a shell would obey."""
    paths = sorted({text for text in texts(evidence) if PATH.fullmatch(text)}, key=len, reverse=True)
    known = {path: renamed(path) for path in paths}
    if not known:
        return evidence
    found = re.compile("|".join(map(re.escape, paths)))
    return changed(evidence, lambda text: found.sub(lambda match: known[match[0]], text))


def renamed(path: str) -> str:
    """The file, and the folder it is in."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{HOSTILE}/{HOSTILE}{name}" if slash else f"{HOSTILE}{name}"


def texts(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [text for it in inner for text in texts(it)]


def changed(part: Any, change: Any) -> Any:
    if isinstance(part, str):
        return change(part)
    if isinstance(part, dict):
        return {key: changed(it, change) for key, it in part.items()}
    return [changed(it, change) for it in part] if isinstance(part, list) else part


def judged(path: Path) -> list[Finding]:
    """By its own rule. The names of code files stay: a rule looks at what is the user's and what a library's."""
    saved = json.loads(path.read_bytes())
    evidence = msgspec.convert(hostile(saved), Evidence)
    return list(all_rules()[path.parent.name].check(Case(evidence)))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.parent.name)
def test_a_hostile_name_is_one_word_of_every_command(path: Path, tmp_path: Path) -> None:
    for finding in judged(path):
        for command in finding.remedy.commands:
            words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
            named = [word for word in words if "PWNED" in word]
            assert all(all(part in word for part in PARTS) for word in named), command
            assert not touches(command, tmp_path), command


def touches(command: str, folder: Path) -> bool:
    """Whether a shell would run `touch`, the only program that this one knows; it can leave no other trace."""
    script, mark = folder / "bin" / "touch", folder / "touched"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\n: > {mark}\n")
    script.chmod(0o755)
    line = [BASH, "-rc", f"enable -n kill\n{command}"]
    environment = {"PATH": str(script.parent)}
    subprocess.run(
        line, cwd=folder, env=environment, check=False, timeout=60, stdin=subprocess.DEVNULL, capture_output=True
    )
    return mark.exists()


def test_a_command_that_is_not_quoted_would_be_noticed(tmp_path: Path) -> None:
    assert not touches(f"ls -l {quoted(f'/data/{HOSTILE}.png')}", tmp_path)
    assert touches(f"ls -l /data/{HOSTILE}.png", tmp_path)


def test_hostile_names_reach_the_commands_of_many_rules() -> None:
    with_names = {
        path.parent.name for path in FOUND for it in judged(path) if any("PWNED" in c for c in it.remedy.commands)
    }
    assert len(with_names) >= 20, sorted(with_names)


NAMES = [
    "a b",
    "-rf",
    "a'b",
    "$HOME",
    "a\nb",
    "a\x1b[31mb",
    "\u202egnp.exe",
    "日本",
    "a\\b",
    "x\udcff",
    "",
    "~",
    "*",
    "#x",
    "a`b`",
]


@pytest.mark.parametrize("name", NAMES)
def test_bash_gets_back_the_name_that_was_quoted(name: str) -> None:
    said = subprocess.run(["bash", "-c", f"printf %s {quoted(name)}"], capture_output=True, check=True)
    assert said.stdout == name.encode("utf-8", "surrogateescape")
    assert printable(quoted(name)) == quoted(name)


PROGRAMS = "cat cp curl df fuser git grep head ls mv rm tar taskset timeout torchrun unstuck"
BARE = re.compile(r"[\w.\[\]0]*\b(?:name|path|paths\[0\]|file|folder|address|key|item|command)|os\.path\.\w+\(.*\)")


def commands_in(file: Path) -> list[ast.JoinedStr]:
    strings = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.JoinedStr)]
    starts = [node.values[0].value if isinstance(node.values[0], ast.Constant) else "" for node in strings]
    return [node for node, start in zip(strings, starts, strict=True) if str(start).split(" ")[0] in PROGRAMS.split()]


def bare_names_in(file: Path) -> list[str]:
    parts = [part.value for node in commands_in(file) for part in node.values if isinstance(part, ast.FormattedValue)]
    return [text for part in parts if BARE.fullmatch(text := ast.unparse(part)) and text not in ("command", "name")]


def test_no_rule_puts_a_name_into_a_command_as_it_is() -> None:
    """Also where no evidence is kept in which it would show."""
    files = sorted((Path(rules.__file__).parent).rglob("*.py"))
    assert sum(len(commands_in(file)) for file in files) > 30
    assert {file.name: bare for file in files if (bare := bare_names_in(file))} == {}
