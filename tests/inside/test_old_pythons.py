"""A Python that the recorder cannot run in is left alone: a command below `unstuck run` may be an old tool's."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pythons import python

BOOTSTRAP = Path(__file__).parents[2] / "src" / "unstuck" / "inside" / "bootstrap"
OLD = ["2.7", "3.6", "3.7", "3.8", "3.9"]
PROGRAM = """
import json, os, sys
import torch
sys.stdout.write("%s %s\\n" % (json.dumps([1]), sorted(name for name in sys.modules if "unstuck" in name)))
sys.stderr.write("%s\\n" % [type(finder).__name__ for finder in sys.meta_path if "torch" in repr(finder).lower()])
sys.exit(3)
"""


def run(interpreter, folder, program=PROGRAM, *, recorded):
    """In a folder that has a torch and a sitecustomize of the user's."""
    (folder / "torch.py").touch()
    (folder / "recordings").mkdir(exist_ok=True)
    known = {name: value for name, value in os.environ.items() if not name.startswith(("UNSTUCK", "PYTHON"))}
    known["PYTHONPATH"] = f"{BOOTSTRAP}:{folder}" if recorded else str(folder)
    known["PYTHONDONTWRITEBYTECODE"] = "1"
    if recorded:
        known["UNSTUCK_RECORDINGS"] = str(folder / "recordings")
    return subprocess.run([interpreter, "-c", program], env=known, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", OLD)
def test_an_old_python_runs_as_without_us(version, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.stdout.write('the user\\'s own\\n')\n")
    interpreter = python(version)

    plain, recorded = (run(interpreter, tmp_path, recorded=one) for one in (False, True))

    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (3, plain.stdout, plain.stderr)
    assert recorded.stdout.startswith("the user's own\n[1] []")
    assert list((tmp_path / "recordings").iterdir()) == []


@pytest.mark.parametrize("version", OLD)
def test_an_old_python_without_a_sitecustomize_starts_in_silence(version, tmp_path):
    plain, recorded = (run(python(version), tmp_path, recorded=one) for one in (False, True))

    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (3, plain.stdout, plain.stderr)


def test_an_implementation_that_is_not_cpython_is_left_alone(tmp_path):
    # given what PyPy and GraalPy say of themselves, said before anything else by a file that Python runs first
    site = tmp_path / "site"
    site.mkdir()
    text = (BOOTSTRAP / "sitecustomize.py").read_text()
    (site / "sitecustomize.py").write_text("import sys\nsys.implementation.name = 'pypy'\n" + text)
    (tmp_path / "torch.py").touch()
    known = {"PYTHONPATH": f"{site}:{tmp_path}", "UNSTUCK_RECORDINGS": str(tmp_path), "PATH": os.environ["PATH"]}

    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=known, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "[1] []\n", "[]\n")


def test_the_file_that_every_python_runs_has_the_syntax_of_old_ones():
    text = (BOOTSTRAP / "sitecustomize.py").read_text(encoding="ascii")

    tree = ast.parse(text, feature_version=(3, 4))

    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.YieldFrom, ast.AsyncFunctionDef)
    assert not [node for node in ast.walk(tree) if isinstance(node, new)]
    arguments = [node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert not [one for one in arguments if one.kwonlyargs or one.posonlyargs]
