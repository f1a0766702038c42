"""`unstuck logs -f` beside a run that is going on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

TRAINING = """
import time, torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
for epoch in range(3):
    for batch in DataLoader(torch.rand(30, 1), batch_size=1):
        model(batch).sum().backward()
        optimizer.step()
        time.sleep(0.05)
"""


def start(tmp_path, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "unstuck", *map(str, words)],
        cwd=tmp_path,
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(condition, seconds=120.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)


@pytest.mark.scenario
def test_it_shows_what_comes_and_ends_with_the_run(tmp_path, script):
    run = start(tmp_path, "run", "--", sys.executable, script(TRAINING))
    wait_for(lambda: list(tmp_path.glob("unstuck-runs/*/logs/train_*.log")))

    follow = start(tmp_path, "logs", "-f", "--rank", "0", "--grep", "EPOCH.*END")
    first = follow.stdout.readline()
    was_running = run.poll() is None
    rest, complaints = follow.communicate(timeout=120)
    run.communicate(timeout=120)

    assert "EPOCH 0 TRAINING END" in first
    assert was_running
    assert [line.partition("EPOCH ")[2][:14] for line in rest.splitlines()] == ["1 TRAINING END", "2 TRAINING END"]
    assert (follow.returncode, complaints) == (0, "")


def test_ctrl_c_ends_it_without_a_word(tmp_path):
    run = start(tmp_path, "run", "--", "sleep", "30")
    wait_for(lambda: list(tmp_path.glob("unstuck-runs/*/logs/train_*.log")))
    follow = start(tmp_path, "logs", "-f")
    assert "Starting training" in follow.stdout.readline()

    follow.send_signal(signal.SIGINT)
    _, complaints = follow.communicate(timeout=120)
    os.kill(run.pid, signal.SIGTERM)
    run.communicate(timeout=120)

    assert (follow.returncode, complaints) == (130, "")


def test_it_ends_where_the_watcher_was_killed(tmp_path):
    run = start(tmp_path, "run", "--", "sleep", "4")
    wait_for(lambda: list(tmp_path.glob("unstuck-runs/*/logs/train_*.log")))
    follow = start(tmp_path, "logs", "-f")
    assert "Starting training" in follow.stdout.readline()

    run.kill()
    run.wait()

    follow.communicate(timeout=120)
    assert follow.returncode == 0


def test_no_run_and_no_logs_are_clear_lines(tmp_path, unstuck):
    (tmp_path / "empty").mkdir()

    told = [unstuck("logs"), unstuck("logs", "nowhere"), unstuck("logs", "empty")]

    assert [one.returncode for one in told] == [2, 2, 2]
    assert [one.stderr.count("\n") for one in told] == [1, 1, 1]
    assert "--rewrite" in told[2].stderr
