"""A run that takes long to come to its first step is asked how far it is. On a real one."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from unstuck.watching.foresight import STARTING, Foresight

PROGRAM = """
import time, torch, unstuck
from torch.utils.data import DataLoader, IterableDataset

class Shelf(IterableDataset):
    def __iter__(self):
        unstuck.progress("shelf", 17, 24, unit="books")
        print("reading", flush=True)
        time.sleep(60)
        yield 1

for batch in DataLoader(Shelf()):
    pass
"""


@pytest.mark.scenario
def test_it_is_told_what_is_filled_and_how_far_it_has_come(tmp_path, script):
    command = [sys.executable, "-m", "unstuck", "run", "--run-dir", str(tmp_path / "runs"), "--"]
    run = subprocess.Popen(
        [*command, sys.executable, str(script(PROGRAM))], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert run.stdout.readline() == b"reading\n"
        (folder,) = (tmp_path / "runs").iterdir()
        said = ask(folder, age=STARTING[0])
    finally:
        run.terminate()
        run.communicate(timeout=120)

    (line,) = said
    assert line.startswith("not at its first step yet: first sample for ")
    assert "shelf 17 of 24 books" in line


def ask(folder, age):
    said = []
    foresight = Foresight(folder, said.append)
    foresight.tick(age - 1, 1, begun=False)
    assert foresight._looking is None  # too early
    deadline = time.monotonic() + 120
    while not said and time.monotonic() < deadline:
        foresight.tick(age, 1, begun=False)
        time.sleep(0.1)
    foresight.close()
    return said


def test_a_run_that_trains_is_not_asked(tmp_path):
    foresight = Foresight(tmp_path, pytest.fail)

    foresight.tick(0.0, 1, begun=True)
    foresight.tick(STARTING[0], 1, begun=False)

    assert foresight._looking is None
