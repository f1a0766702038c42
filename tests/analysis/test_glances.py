"""What takes long is looked at while it does: the line, and what the main thread is blocked at. On a real run."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.glances import blocked_at, glances_of, lines_of
from unstuck.diagnose import gather

PROGRAM = """
import time, torch
from torch.utils.data import DataLoader

def evaluate():
    time.sleep(3)

loader = DataLoader(torch.rand(8, 1), batch_size=2)
for epoch in range(1):
    for rows in loader:
        for _ in range(10):
            print("." * 8192, flush=True)  # into a pipe that somebody reads slowly
    evaluate()
"""


@pytest.mark.scenario
def test_a_slow_reader_of_the_output_and_a_long_evaluation_are_seen_with_their_lines(tmp_path, script):
    command = [sys.executable, "-m", "unstuck", "run", "--run-dir", str(tmp_path / "runs"), "--"]
    with subprocess.Popen([*command, sys.executable, str(script(PROGRAM))], stdout=subprocess.PIPE) as run:
        while run.stdout.read(16384):
            time.sleep(0.15)

    (folder,) = (tmp_path / "runs").iterdir()
    evidence = gather(folder)
    (main,) = Case(evidence).mains
    seen = glances_of(Case(evidence), main)
    assert {one.doing for one in seen} == {"in the loop's body", "between passes"}
    assert {where.function for where, _ in lines_of([one for one in seen if one.doing == "between passes"])} == {
        "evaluate"
    }
    writing = [one for one in seen if one.waits == "write pipe"]
    assert {where.line for where, _ in lines_of(writing)} == {12}
    assert blocked_at(Case(evidence), main, "write pipe") > 0.0
    assert blocked_at(Case(evidence), main, "write terminal") == 0.0
