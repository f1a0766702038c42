"""Fixtures for all tests."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# Started in the background by a shell, everything would inherit that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
