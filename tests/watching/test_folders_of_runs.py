"""Runs and their folders as a user meets them: two commands of one job, a full disk, a network file system."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from stuck import needs_root

pytestmark = pytest.mark.scenario

TRAINING = """
import contextlib, os, sys, time, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if index == 5 and os.environ.get("FILL"):
            with open(os.environ["FILL"], "wb", buffering=0) as filler, contextlib.suppress(OSError):
                while filler.write(bytes(4096)):
                    pass
        if index == 9 and os.environ.get("FAIL"):
            raise RuntimeError("old failure of the first command")
        time.sleep(float(os.environ.get("SECONDS", "0")))
        return index
for _ in DataLoader(Numbers()):
    pass
open("done", "w").close()
"""


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAINING)

    def start(*words, before=(), cwd=tmp_path, **variables):
        return subprocess.run(
            [*before, sys.executable, "-m", "unstuck", "run", *words, "--", sys.executable, path],
            cwd=cwd,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return start


@pytest.mark.parametrize("variables", [{"SLURM_JOB_ID": "77"}, {"UNSTUCK_RUN": "mine"}], ids=["Slurm", "given"])
def test_a_healthy_command_after_one_that_crashed_in_the_same_job_is_healthy(tmp_path, train, variables):
    crashed = train("--report", "first.json", FAIL="1", **variables)
    healthy = train("--report", "second.json", **variables)

    first, second = (json.loads((tmp_path / name).read_text()) for name in ("first.json", "second.json"))
    assert (crashed.returncode, first["state"]) == (1, "crashed")
    assert (healthy.returncode, second["state"], second["findings"]) == (0, "healthy", [])
    assert len(list((tmp_path / "unstuck-runs").iterdir())) == 2


def test_a_job_that_is_queued_again_is_judged_by_its_newest_life(tmp_path, train):
    train(FAIL="1", SLURM_JOB_ID="77")
    again = train("--report", "r.json", SLURM_JOB_ID="77", SLURM_RESTART_COUNT="1")

    report = json.loads((tmp_path / "r.json").read_text())
    assert (again.returncode, report["state"]) == (0, "healthy")
    assert len(list((tmp_path / "unstuck-runs").iterdir())) == 1


def test_a_verdict_is_told_though_the_disk_is_full(tmp_path, train):
    needs_root("unshare", "mount")
    (tmp_path / "runs").mkdir()
    mounted = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=12M tmpfs runs && exec "$@"', "sh")

    ended = train("--run-dir", "runs", before=mounted, FAIL="1", FILL="runs/filler")

    assert ended.returncode == 1
    assert "old failure of the first command" in ended.stderr
    assert "✗ crashed[" in ended.stderr, ended.stderr


def test_recordings_on_a_local_disk_are_found_when_all_of_ours_was_killed(tmp_path, train):
    """ramfs stands for a network file system: space cannot be reserved on either."""
    needs_root("unshare", "mount")
    shared = tmp_path / "shared"
    shared.mkdir()
    inner = f"""
import os, signal, subprocess, sys, time, glob
train = {str(tmp_path / "train.py")!r}
running = subprocess.Popen([sys.executable, "-m", "unstuck", "run", "--", sys.executable, train])
def wait_for(condition):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
wait_for(lambda: any("watching" in open(lock).read() for lock in glob.glob("unstuck-runs/*/watch-*.lock")))
watcher = int(open(glob.glob("unstuck-runs/*/watch-*.lock")[0]).read().split()[2])
(at,) = glob.glob("unstuck-runs/*/recordings-*.at")
wait_for(lambda: glob.glob(open(at).read() + "/*.rec"))
os.kill(watcher, signal.SIGKILL)
os.kill(running.pid, signal.SIGKILL)
wait_for(lambda: os.path.exists("done"))
(folder,) = glob.glob("unstuck-runs/*")
sys.exit(subprocess.run([sys.executable, "-m", "unstuck", "why", folder, "--json"]).returncode)
"""
    (tmp_path / "inner.py").write_text(inner)
    mounted = 'mount -t ramfs ramfs shared && cd shared && exec "$@"'

    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, "sh", sys.executable, tmp_path / "inner.py"],
        cwd=tmp_path,
        env={**os.environ, "SECONDS": "0.1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    report = json.loads(ended.stdout)
    assert report["activities"][0]["have"] == 40, ended.stderr
    assert not [note for note in report["notes"] if "nothing was recorded" in note]
