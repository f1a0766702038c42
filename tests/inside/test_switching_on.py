"""The ways to switch recording on, as a user takes them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from stuck import wait_for

TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    for (x,) in DataLoader(TensorDataset(torch.rand(64, 3)), batch_size=8, num_workers=1):
        pass
    raise ValueError("the end")
"""
WATCHED = "import unstuck\nunstuck.watch()\n" + TRAINING


def report_of(base):
    """The one run's report, once its watcher has written it."""
    until = time.monotonic() + 30
    while not list(base.glob("unstuck-runs/*/report.json")):
        assert time.monotonic() < until, "the watcher never reported"
        time.sleep(0.1)
    time.sleep(0.2)
    (file,) = base.glob("unstuck-runs/*/report.json")
    return json.loads(file.read_bytes())


@pytest.mark.scenario
def test_two_lines_in_the_script_record_and_report(tmp_path, script):
    ended = subprocess.run([sys.executable, script(WATCHED)], cwd=tmp_path, capture_output=True, text=True, check=False)

    report = report_of(tmp_path)

    assert ended.returncode == 1
    assert [one["rule"] for one in report["findings"]] == ["uncaught-exception"]
    assert "[unstuck] crashed[uncaught-exception]  " in ended.stderr


@pytest.mark.scenario
def test_a_shell_is_switched_on_and_off_again(tmp_path, script):
    path, python = script(TRAINING), shlex.quote(sys.executable)
    lines = [
        f'eval "$({python} -m unstuck env)"',
        f"{python} {shlex.quote(str(path))}",
        f'eval "$({python} -m unstuck env --off)"',
        "env | grep -c '^UNSTUCK'",
    ]

    ended = subprocess.run(
        ["sh", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("UNSTUCK")},
    )  # fmt: skip

    assert report_of(tmp_path)["findings"][0]["rule"] == "uncaught-exception"
    assert ended.stdout == "0\n"


# The Python of the detached watcher, whose judging hangs.
HANGS = """#!/bin/sh
shift 2  # -m unstuck.watching
exec {python} -c '
import runpy, sys, time
import unstuck.diagnose, unstuck.watching.recorded_run as recorded_run
def diagnose(folder):
    open("judging", "w").write(str(__import__("os").getpid()))
    {hangs}
unstuck.diagnose.diagnose = diagnose
recorded_run.JUDGING = {seconds}
runpy.run_module("unstuck.watching", run_name="__main__")
' "$@"
"""
SLEEPS, IN_NATIVE_CODE = "time.sleep(600)", "__import__('collections').deque(__import__('itertools').repeat(0), 0)"


@pytest.fixture
def watched(tmp_path, script):
    """Starts a training whose watcher hangs in its judging; its streams end when the watcher's do."""
    started = []

    def start(hangs, seconds):
        watcher = tmp_path / "watcher"
        watcher.write_text(
            HANGS.format(python=shlex.quote(sys.executable), hangs=hangs.replace("'", '"'), seconds=seconds)
        )
        watcher.chmod(0o755)
        path = script("import unstuck\nunstuck.watch()\nimport torch\n")
        variables = {name: value for name, value in os.environ.items() if not name.startswith("UNSTUCK")}
        running = subprocess.Popen(
            [sys.executable, path], cwd=tmp_path, env={**variables, "UNSTUCK_WATCHER": str(watcher)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        started.append(running)
        return running

    yield start
    for running in started:
        running.kill()
        running.wait()
    pid = (tmp_path / "judging").read_text()
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.scenario
def test_a_detached_watcher_whose_judging_hangs_leaves_when_it_is_told_to(tmp_path, watched):
    running = watched(SLEEPS, 600.0)
    judging = tmp_path / "judging"
    wait_for(lambda: judging.exists() and judging.read_text())

    os.kill(int(judging.read_text()), signal.SIGTERM)

    assert running.communicate(timeout=60)[0] == ""  # which waits for the end of its streams


@pytest.mark.scenario
@pytest.mark.parametrize(("hangs", "says"), [(SLEEPS, True), (IN_NATIVE_CODE, False)], ids=["Python", "native code"])
def test_a_detached_watcher_whose_judging_hangs_holds_nobody_for_ever(watched, hangs, says):
    told = watched(hangs, 2.0).communicate(timeout=120)[0]

    assert ("[unstuck] no verdict within 2 s: unstuck why " in told) == says


def test_watch_does_nothing_when_switched_off(tmp_path, script):
    path = script("import unstuck\nunstuck.watch()\nwith unstuck.stage('x'):\n    print('ran')\n")
    variables = {**os.environ, "UNSTUCK": "0"}

    ended = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, env=variables, check=True
    )

    assert (ended.stdout, ended.stderr) == ("ran\n", "")
    assert not (tmp_path / "unstuck-runs").exists()


def test_watch_where_nothing_can_be_written_is_one_line_and_the_program_runs(tmp_path, script):
    (tmp_path / "file").touch()
    path = script("import unstuck\nunstuck.watch('file/runs')\nprint('ran')\n")

    ended = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert ended.stdout == "ran\n"
    assert ended.stderr == "unstuck: no recording in file/runs; the program runs unrecorded\n"


@pytest.mark.scenario
def test_under_torchrun_every_rank_and_its_worker_is_told_apart(tmp_path, unstuck, script):
    path = script(
        "import torch.distributed as dist\n"
        + TRAINING.replace(
            'if __name__ == "__main__":\n', 'if __name__ == "__main__":\n    dist.init_process_group("gloo")\n'
        ).replace('raise ValueError("the end")', "dist.destroy_process_group()")
    )

    ended = unstuck(
        "run", "--report", "r.json", "--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", path
    )
    (folder,) = (tmp_path / "unstuck-runs").iterdir()
    evidence = json.loads((folder / "report.json").read_bytes())["evidence"]

    assert ended.returncode == 0, ended.stderr
    known = sorted((one["role"], one.get("rank", -1)) for one in evidence["recording"])
    assert known == [("launcher", -1), ("main", 0), ("main", 1), ("worker", 0), ("worker", 1)]
