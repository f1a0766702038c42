"""The second try of `make scenarios`: who needed it is listed, and it makes nothing green that should be red."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITE = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({passing}))
def test_steady(number):
    pass

@pytest.mark.parametrize("number", range({once}))
def test_fails_once(number):
    marker = pathlib.Path(__file__).with_name(f"tried-{{number}}")
    tried = marker.exists()
    marker.touch()
    assert tried

@pytest.mark.parametrize("number", range({always}))
def test_fails_always(number):
    raise AssertionError
"""


@pytest.fixture
def suite(tmp_path):
    """Runs a suite of so many tests that pass, that fail once and that always fail, as `make scenarios` does."""

    def run(passing, once=0, always=0, *options):
        (tmp_path / "test_fake.py").write_text(SUITE.format(passing=passing, once=once, always=always))
        words = ["-q", "-p", "second_try", "--reruns", "1", "-n", "2", *options, "test_fake.py"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", ".", *words],
            cwd=tmp_path,
            env={"PYTHONPATH": str(HERE), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    return run


def listed(ended):
    """The names below the heading, and the line that sums them up."""
    _, heading, rest = ended.stdout.partition("tried a second time")
    assert heading, ended.stdout + ended.stderr
    found = re.findall(r"^test_fake\.py::(\S+)$", rest, re.MULTILINE)
    return found, re.search(r"^\d+ of \d+ needed .*$", rest, re.MULTILINE)[0]


def test_one_of_a_hundred_that_fails_once_is_listed_and_the_run_is_green(suite):
    ended = suite(99, once=1)

    assert listed(ended) == (["test_fails_once[0]"], "1 of 100 needed a second try, at most 1%")
    assert ended.returncode == 0


def test_more_than_one_of_a_hundred_is_red_even_if_all_passed_the_second_time(suite):
    ended = suite(98, once=2)

    names, summary = listed(ended)
    assert names == ["test_fails_once[0]", "test_fails_once[1]"]
    assert summary == "2 of 100 needed a second try, more than 1%: this run fails"
    assert ended.returncode == 1


def test_one_that_fails_twice_is_red(suite):
    ended = suite(199, always=1)

    assert listed(ended)[0] == ["test_fails_always[0]"]
    assert ended.returncode == 1


def test_nothing_is_said_where_nobody_needed_it(suite):
    ended = suite(3)

    assert "second" not in ended.stdout
    assert ended.returncode == 0
