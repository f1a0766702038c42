"""Fixtures for all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.probes import cgroups

sys.path.insert(0, str(Path(__file__).parent))
# Started in the background by a shell, everything would inherit that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


pytest_plugins = ["second_try"]
MOST = 8  # trainings at a time: each has several processes of some hundred megabytes
# Five trainings at a time share two cores: a thread that spins while it waits takes them from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["UNSTUCK_LANG"] = "en"  # whatever the locale is: tests/wording/test_language.py has the others


def pytest_collection_modifyitems(items):
    """A test that starts an interpreter of its own and has it import torch takes as long as a small training.

    So does one that runs something with every library there is an adapter for.
    """
    for item in items:
        if {"started", "tiny_runs"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.scenario)


def pytest_ignore_collect(collection_path, config):
    """A file that is a scenario as a whole is not even imported where none is wanted: it would import torch."""
    if "not scenario" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.scenario" in collection_path.read_text() or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """`-n auto`, as in `make scenarios`: no more trainings at a time than there are cores for them."""
    quota = cgroups.processor_quota(os.getpid())
    cores = len(os.sched_getaffinity(0))
    return max(min(cores, cores if quota is None else int(quota), MOST), 1)


@pytest.fixture
def unstuck(tmp_path):
    """Runs the command as a user would, in an empty folder."""

    def run(*words, cwd=tmp_path, timeout=120, **options):
        command = [sys.executable, "-m", "unstuck", *map(str, words)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False, **options)

    return run


@pytest.fixture
def script(tmp_path):
    """Writes a small program."""

    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
