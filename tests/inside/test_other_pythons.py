"""What runs in the user's process works on every Python we claim, also where the tests themselves do not run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pythons import python
from unstuck.recordings.process import process_of
from unstuck.recordings.reader import Facts, Recording

BOOTSTRAP = Path(__file__).parents[2] / "src" / "unstuck" / "inside" / "bootstrap"
PROGRAM = """
import torch
from _unstuck_inside.api import progress, stage
with stage("decode", item="/data/x.jpg"):
    progress("buffer", 3, 10, "tokens")
raise LookupError("the end")
"""


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_it_records_without_a_warning(version, tmp_path):
    (tmp_path / "torch.py").touch()  # the real one is not to be had for each of them
    (tmp_path / "recordings").mkdir()
    variables = {
        **os.environ,
        "PYTHONPATH": f"{BOOTSTRAP}:{tmp_path}",
        "UNSTUCK_RECORDINGS": str(tmp_path / "recordings"),
    }

    ended = subprocess.run(
        [python(version), "-W", "error", "-c", PROGRAM], env=variables, capture_output=True, text=True, check=False
    )

    (file,) = (tmp_path / "recordings").iterdir()
    process = process_of(Facts(Recording(file), 0.0))
    assert ended.stderr.splitlines()[-1] == "LookupError: the end"
    assert process.failure.type == "LookupError"
    assert process.stages["decode"].count == 1
    assert process.progress[0].have == 3
    assert process.ended_how == "interpreter exit"
