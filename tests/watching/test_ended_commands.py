"""Real commands that end, also such as never import torch: `unstuck run` says what ended them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from stuck import wait_for
from unstuck.demo.surroundings import Unavailable, surroundings
from unstuck.watching.recorded_run import python_path

pytestmark = pytest.mark.scenario


def judged(tmp_path, *command, around=()):
    words = [*around, sys.executable, "-m", "unstuck", "run", "--report", "r.json", "--", *command]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    report = json.loads((tmp_path / "r.json").read_text())
    return ended.returncode, report["state"], report["findings"][0]["rule"], report["findings"][0]["cause"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("kill -9 $$", (137, "crashed", "main-killed")),
        ("kill -SEGV $$", (139, "crashed", "main-killed")),
        ("kill -TERM $$", (143, "stopped", "stopped-from-outside")),
        ("kill -XCPU $$", (152, "stopped", "stopped-from-outside")),
        ("exit 3", (3, "crashed", "exited-with-code")),
        ("sh -c 'kill -9 $$'; exit $?", (137, "crashed", "exited-with-code")),
    ],
)
def test_a_plain_command_says_how_it_ended(tmp_path, script, expected):
    *found, cause = judged(tmp_path, "sh", "-c", script)

    assert tuple(found) == expected
    assert "unknown" not in cause


def test_a_plain_program_that_the_oom_killer_ended_is_told_by_the_counters(tmp_path):
    program = "held = [bytearray(1 << 20) for _ in range(1 << 20)]"
    try:
        with surroundings({"memory": "300M"}) as around:
            code, state, rule, _ = judged(tmp_path, sys.executable, "-c", program, around=around.outside)
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert (code, state, rule) == (137, "crashed", "main-oom-killed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM])
def test_a_signal_that_is_passed_on_is_told_with_its_sender(tmp_path, number):
    program = "echo ready; exec sleep 60"
    words = [sys.executable, "-m", "unstuck", "run", "--report", "r.json", "--", "sh", "-c", program]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"ready\n"
        run.send_signal(number)
        run.communicate(timeout=60)
    (found,) = json.loads((tmp_path / "r.json").read_text())["findings"]

    assert run.returncode == 128 + number
    assert found["rule"] == "stopped-from-outside"
    assert any(f"(pid {os.getpid()})" in one for one in found["seen"])


def test_a_command_that_handles_the_signal_and_leaves_with_0_was_stopped_all_the_same(tmp_path):
    program = "trap 'exit 0' TERM; touch ready; while :; do sleep 0.05; done"
    words = [sys.executable, "-m", "unstuck", "run", "--report", "r.json", "--", "sh", "-c", program]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE) as run:
        wait_for((tmp_path / "ready").exists)
        run.terminate()
        run.communicate(timeout=60)

    assert run.returncode == 0
    assert json.loads((tmp_path / "r.json").read_text())["state"] == "stopped"


FROM_INSIDE = """
import os, pathlib, time
import torch
pathlib.Path("ready").write_text(os.environ["UNSTUCK_WATCHER_PID"])
while True:
    time.sleep(0.05)
"""


def test_a_job_whose_processes_are_all_told_to_go_is_judged_by_its_detached_watcher(tmp_path):
    """As Slurm does it, at the time limit: the watcher is a process of the job, too."""
    variables = {
        "UNSTUCK_RUNS": str(tmp_path / "runs"), "UNSTUCK_WATCHER": sys.executable, "PYTHONPATH": python_path(),
        "UNSTUCK_PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # fmt: skip
    command = [sys.executable, "-c", FROM_INSIDE]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **variables}, stderr=subprocess.PIPE) as run:
        wait_for(lambda: (tmp_path / "ready").exists() and (tmp_path / "ready").read_text())
        watcher = int((tmp_path / "ready").read_text())
        wait_for(lambda: list(tmp_path.glob("runs/*/watch-*.jsonl")))
        os.kill(watcher, signal.SIGTERM)
        run.terminate()
        run.wait(timeout=60)
    wait_for(lambda: list(tmp_path.glob("runs/*/report.json")))
    (file,) = tmp_path.glob("runs/*/report.json")

    assert json.loads(file.read_text())["state"] == "stopped"
