"""Tests pass wherever the repository was cloned to: in a folder called `unstuck`, below one with spaces and unicode.

`git clone` gives it that name, and tests that look for the package in a traceback or a path have found the folder once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TIMEOUT = 600.0
# What looks at tracebacks, at paths, and at the names of folders.
TESTS = """
    tests/test_tree.py tests/watching/test_place.py tests/inside/test_bootstrap.py tests/inside/test_raised_again.py
    tests/inside/test_wrapping.py
"""


def cloned(place: Path) -> None:
    """As a newcomer has it; where this is no clone itself, what it consists of."""
    command = ["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(place)]
    if (ROOT / ".git").exists() and shutil.which("git"):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        shutil.rmtree(place, ignore_errors=True)
    left = shutil.ignore_patterns(".*", "__pycache__", "unstuck-runs", "site", "dist", "*.egg-info")
    shutil.copytree(ROOT, place, ignore=left)


@pytest.mark.scenario
@pytest.mark.calm
def test_tests_of_paths_pass_in_a_clone_that_has_the_name_of_the_package(tmp_path: Path) -> None:
    clone = tmp_path / "ünstuck dir" / "unstuck"
    cloned(clone)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "UNSTUCK"))}
    environment["PYTHONPATH"] = str(clone / "src")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )

    used = run("-c", "import unstuck; print(unstuck.__file__)")
    assert used.stdout.strip() == str(clone / "src" / "unstuck" / "__init__.py"), used.stderr
    done = run("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *TESTS.split())
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
