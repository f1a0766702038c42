"""`make versions`: what it runs is there, and what it says is what was said."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from core import SCENARIOS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "versions.py"


@pytest.fixture(scope="module")
def versions():
    spec = importlib.util.spec_from_file_location("versions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(*words):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False)


def test_every_scenario_of_it_is_there_and_needs_no_library_but_torch(versions):
    others = ("wandb", "lightning", "datasets", "accelerate", "webdataset", "pyarrow", "PIL")
    texts = {name: SCENARIOS[name].path.read_text() for name in versions.CORE}

    assert {name: word for name, text in texts.items() for word in others if f"import {word}" in text} == {}


def test_versions_that_are_not_known_are_refused_in_one_line():
    ended = asked("--only", "2.7/1.0")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "versions: none of these is known: 2.7/1.0; --help lists them\n"


@pytest.mark.scenario
def test_a_scenario_is_run_where_it_is_asked_for():
    ended = asked("--inside", "--scenarios", "uncaught-exception")

    (line,) = ended.stdout.splitlines()
    assert json.loads(line) == {
        "name": "uncaught-exception",
        "expected": "uncaught-exception",
        "said": "uncaught-exception",
        "right": True,
    }


def test_the_table_tells_what_was_said_instead_and_what_could_not_be_made(versions):
    right = {"name": "a", "expected": "a", "said": "a", "right": True}
    wrong = {"name": "b", "expected": "b", "said": "healthy", "right": False}

    text = versions.table({"3.10/2.2.2": {"a": right, "b": wrong}, "3.13/2.15.0": None}, ["a", "b"])

    assert text.splitlines()[2:] == [
        "| a | right | - |",
        "| b | healthy | - |",
        "| **right** | 1 of 2 | - |",
    ]
