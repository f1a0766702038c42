"""A target that cannot be used: one clear line that says what to do, exit code 2, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.cli.main import main

COULD_NOT_LOOK = 2
LOADER = """
from torch.utils.data import DataLoader
def make(size=4): return DataLoader(list(range(8)), batch_size=size)
"""


def doctor(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unstuck", "doctor", *words, "--run-dir", str(folder / "runs")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def one_line(ended: subprocess.CompletedProcess[str]) -> str:
    """What is said, when that is all."""
    lines = [line for line in ended.stderr.splitlines() if line.startswith("unstuck: ")]
    assert ended.returncode == COULD_NOT_LOOK, ended.stderr
    assert len(lines) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not ended.stdout
    assert "; " in lines[0]
    return lines[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["loader.py"], "loader.py names no callable"),
        ([], "doctor needs a TARGET"),
        (["loader.py:make", "--kwargs", "{bad"], "--kwargs is not a JSON object"),
        (["loader.py:make", "--kwargs", "=3"], "is not an argument"),
        (["loader.py:make", "--only", "one,two"], "there is no rung 'one'"),
        (["loader.py:make", "--limit", "soon"], "is not a number above 0"),
        (["loader.py:make", "--memory", "much"], "is not a size"),
        (["loader.py:make", "--python", "/no/python"], "there is no Python /no/python"),
    ],
)
def test_a_command_that_makes_no_sense_is_told_before_anything_runs(tmp_path, monkeypatch, capsys, words, says):
    (tmp_path / "loader.py").write_text(LOADER)
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["doctor", *words, "--run-dir", str(tmp_path / "runs")])
    except SystemExit as left:  # as argparse does
        code = left.code
    said = capsys.readouterr()
    assert says in one_line(subprocess.CompletedProcess([], code, said.out, said.err))
    assert not (tmp_path / "runs").exists()


TARGETS = {
    "does not exist": ("other.py:make", "", "does not exist"),
    "does not import": ("bad.py:make", "import no_such_library\n", "no_such_library"),
    "has an error": ("bad.py:make", "def make(:\n", "SyntaxError"),
    "has no such name": ("bad.py:loader", LOADER, "has no 'loader'"),
    "gives something else": ("bad.py:make", "def make(): return 3\n", "returns an object of type int"),
    "needs arguments": ("bad.py:make", "def make(root): pass\n", "needs root"),
    "ends at import": ("bad.py:make", "import sys; sys.exit(4)\n", "ends the interpreter when it is imported"),
    "crashes at import": ("bad.py:make", "import os; os.kill(os.getpid(), 11)\n", "(SIGSEGV) while it imported"),
    "trains at import": (
        "bad.py:make",
        "import torch\nx = torch.nn.Parameter(torch.ones(1))\no = torch.optim.SGD([x], 0.1)\n"
        "x.sum().backward()\no.step()\n",
        "begins to train when it is imported (an optimizer's step at bad.py:5)",
    ),
    "needs a GPU": ("bad.py:make", "import torch\ndef make(): torch.ones(1).cuda()\n", "needs a GPU at bad.py:2"),
}


AS_A_COMMAND = ("does not import", "crashes at import", "needs a GPU")


@pytest.mark.scenario
@pytest.mark.parametrize("name", AS_A_COMMAND)
def test_a_target_that_cannot_be_used_is_one_line(tmp_path, name):
    target, code, says = TARGETS[name]
    (tmp_path / "bad.py").write_text(code)
    assert says in one_line(doctor(tmp_path, target, "--only", "construct"))


@pytest.mark.scenario
@pytest.mark.parametrize("name", [name for name in TARGETS if name not in AS_A_COMMAND])
def test_the_child_refuses_it_in_these_words(tmp_path, monkeypatch, name):
    """In this process, where torch is imported once for all of them: what the command makes of it is the same."""
    from unstuck.trials.child.loaders import as_loader
    from unstuck.trials.child.request import Refused
    from unstuck.trials.child.target import load

    target, code, says = TARGETS[name]
    if code:
        (tmp_path / "bad.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    for name in ("path", "argv"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.delitem(sys.modules, "bad", raising=False)
    with pytest.raises(Refused, match=re.escape(says)) as refused:
        as_loader(load(target, {}), target, {})
    assert refused.value.do


def test_the_line_is_named_also_where_the_users_file_has_the_name_of_one_of_ours():
    from unstuck.trials.child.target import _said

    with pytest.raises(LookupError) as raised:
        exec(compile("\n\nraise LookupError('no data')", "/data/work/target.py", "exec"))

    assert _said(raised.value) == "LookupError: no data (target.py:3)"


@pytest.mark.scenario
def test_a_target_that_never_imports_is_ended_and_told(tmp_path):
    (tmp_path / "bad.py").write_text("import time\ntime.sleep(1000)\n")
    assert "is not imported after" in one_line(doctor(tmp_path, "bad.py:make", "--only", "construct", "--limit", "9"))


@pytest.mark.scenario
def test_a_target_in_another_folder_that_prints_and_has_imports_of_its_own(tmp_path):
    """Standard output is the report's alone."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "helper.py").write_text("print('helper is here')\nSIZE = 2\n")
    (tmp_path / "project" / "data.py").write_text(f"print('hello')\nfrom helper import SIZE\n{LOADER}")
    ended = doctor(tmp_path, "project/data.py:make", "--kwargs", "size=2", "--only", "construct", "--json")
    report = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert report["trial"]["target"]["loader"]["batch_size"] == 2
    assert "hello" not in ended.stderr


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "loader.py").write_text(LOADER)
    (tmp_path / "runs").write_text("a file, where a folder should be")
    assert "--run-dir DIR names another place" in one_line(doctor(tmp_path, "loader.py:make", "--only", "construct"))
