"""The ways to switch recording on, as a user takes them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time

import pytest

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
