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

import unstuck
from kept import KEPT
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Run
from unstuck.evidence.finding import Finding
from unstuck.logs.files import Settings
from unstuck.logs.folder import LogFolder
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


SOURCE = Path(unstuck.__file__).parent
PROGRAMS = (
    "cat cp curl df du find fuser git grep head kill less ls mkdir mv pip python python3 rm tail tar taskset timeout"
    " torchrun unstuck"
)
# A command in a text: a program, its options, and at least one field.
COMMAND = re.compile(rf"(?:^|[\s`(:$])(?:{'|'.join(PROGRAMS.split())}) (?:[\w./=-]+ )*\x00\d+\x00(?:[ =]?\x00\d+\x00)*")
# What a field may hold as it is: what was quoted, numbers, and durations and sizes in prose that reads like a command.
QUOTED = re.compile(r".*\bquoted(_line)?\(.*|_shown\(folder\)|[\w.\[\]]*\b(pid|rule|rank|cores)|(duration|size)\(.*\)")
OURS = {  # by file: words of our own, and those that only the tests above can show to be quoted
    "memory.py": {"where"},  # prose
    "demo.py": {"scenario.path.name", "' '.join(scenario.check)"},
    "main.py": {"__version__", "words[0]", "name", "word(text)"},
    "trials.py": {"command", "words"},
    "data_wording.py": {"_decode(case)"},
    "corrupt_image_sample.py": {"decode"},
    "checkpoint_disk_full.py": {"'-ri' if folders else '-i'"},
    "worker_stopped.py": {"' '.join((str(one.pid) for one in stopped))"},
    "omp1_by_torchrun.py": {"VARIABLE"},  # prose
}


def fields_of_commands(node: ast.JoinedStr) -> list[str]:
    """What is put into commands that this text holds, as source."""
    parts = [str(one.value) if isinstance(one, ast.Constant) else f"\0{at}\0" for at, one in enumerate(node.values)]
    found = COMMAND.findall("".join(parts))
    fields = [node.values[int(at)] for command in found for at in re.findall(r"\x00(\d+)\x00", command)]
    return [ast.unparse(one.value) for one in fields if isinstance(one, ast.FormattedValue)]


def quoted_before(tree: ast.AST) -> set[str]:
    """Variables whose value was quoted where they were set."""
    pairs = [(name, one.value) for one in ast.walk(tree) if isinstance(one, ast.Assign) for name in one.targets]
    for names, values in [pair for pair in pairs if isinstance(pair[0], ast.Tuple) and isinstance(pair[1], ast.Tuple)]:
        pairs += zip(names.elts, values.elts, strict=True)
    return {ast.unparse(name) for name, value in pairs if re.search(r"\b(quoted(_line)?|quote)\(", ast.unparse(value))}


def fields_in(source: str) -> tuple[int, list[str]]:
    """How many are in commands, and those of them that go in as they are."""
    tree = ast.parse(source)
    fields = [one for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in fields_of_commands(node)]
    before = quoted_before(tree)
    return len(fields), [one for one in fields if one not in before and not QUOTED.fullmatch(one)]


def test_no_name_is_put_into_a_command_as_it_is() -> None:
    """In all of the source: also where no evidence is kept in which it would show."""
    found = {file: fields_in(file.read_text()) for file in sorted(SOURCE.rglob("*.py"))}

    assert sum(count for count, _ in found.values()) > 50
    bare = {file.name: sorted({*fields} - OURS.get(file.name, set())) for file, (_, fields) in found.items()}
    assert {name: fields for name, fields in bare.items() if fields} == {}


@pytest.mark.parametrize(
    "text", ["tail -f {path}", "no logs; see `ls -la {folder}`; it goes on", "(unstuck why {run})"]
)
def test_a_name_that_goes_into_a_command_as_it_is_would_be_noticed(text: str) -> None:
    assert len(fields_in(f"say(f'{text}')")[1]) == 1
    assert fields_in(f"say(f'{re.sub('{(.*)}', '{quoted(x)}', text)}')") == (1, [])


def test_what_the_logs_say_of_a_folder_can_be_pasted(tmp_path: Path) -> None:
    """The folder that an audit has tried: `my dir;$(x)`."""
    told: list[str] = []
    run = Run(id="a", command=["python", "train.py"], started=1e9, host="vm")
    place = tmp_path / HOSTILE.replace("/", "") / "logs"
    logs = LogFolder(str(place), run, Settings(), 1e9, told.append)
    logs.begin()
    (log,) = place.glob("*.log")
    (shown,) = [line.partition("Monitor logs with: ")[2] for line in log.read_text().splitlines() if "tail -f" in line]
    assert shlex.split(shown) == ["tail", "-f", str(log)]

    blocked = tmp_path / HOSTILE / "none"
    blocked.parent.mkdir(exist_ok=True)
    blocked.touch()
    LogFolder(str(blocked), run, Settings(), 1e9, told.append).begin()
    assert len(told) == 1
    command = told[0].partition("see `")[2].partition("`; the run goes on")[0]
    assert shlex.split(command) == ["ls", "-la", str(blocked)]
    assert not touches(command, tmp_path)
