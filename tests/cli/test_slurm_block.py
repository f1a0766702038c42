"""`unstuck env --slurm`: a block that a shell takes, and that records what is started below it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time

import pytest

TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
for (x,) in DataLoader(TensorDataset(torch.rand(64, 3)), batch_size=8):
    pass
"""


def shell(text, **options):
    command = ["bash", *options.pop("flags", ()), "-c", text]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    "command", [(), ("--", "python", "train.py", "--name", "it's $HOME"), ("--", "torchrun", "x.py")]
)
def test_the_block_is_valid_bash(unstuck, tmp_path, command):
    block = unstuck("env", "--slurm", "--run-dir", tmp_path / "a folder", *command)

    checked = shell(block.stdout, flags=("-n", "-u"))

    assert (block.returncode, checked.returncode, checked.stderr) == (0, 0, "")


def test_what_would_do_nothing_is_explained_and_not_exported(unstuck):
    lines = unstuck("env", "--slurm").stdout.splitlines()

    exported = [line.split("=")[0].removeprefix("export ") for line in lines if line.startswith("export ")]
    assert exported == ["UNSTUCK_RUNS", "UNSTUCK_WATCHER", "UNSTUCK_PYTHONPATH", "PYTHONPATH"]
    assert any(line.startswith("#   TORCH_SHARING_STRATEGY does nothing") for line in lines)
    assert any(line.startswith("# export UNSTUCK_SAMPLE_TIMES=1") for line in lines)
    assert "srun python train.py" in lines


def test_sample_times_are_switched_on_if_they_are_asked_for(unstuck):
    assert "\nexport UNSTUCK_SAMPLE_TIMES=1" in unstuck("env", "--slurm", "--sample-times").stdout


def test_a_command_without_slurm_is_refused(unstuck):
    ended = unstuck("env", "python", "train.py")

    assert ended.returncode == 2
    assert "--slurm" in ended.stderr


@pytest.mark.scenario
def test_a_job_with_the_block_is_recorded_under_its_number(unstuck, script, tmp_path):
    """Slurm's part is played by a small `srun`: it starts the command with the variables of a step."""
    path, runs = script(TRAINING), tmp_path / "runs"
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nSLURM_STEP_ID=0 exec "$@"\n')
    srun.chmod(0o755)
    block = unstuck("env", "--slurm", "--run-dir", runs, "--", sys.executable, path).stdout

    ended = shell(block, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "4711"})

    assert ended.returncode == 0, ended.stderr
    until = time.monotonic() + 120
    while not list(runs.glob("*4711*/report.json")):
        assert time.monotonic() < until, [one.name for one in runs.iterdir()]
        time.sleep(0.1)
    look = (
        next(line for line in block.splitlines() if "unstuck why" in line).removeprefix("#   ").replace("JOBID", "4711")
    )
    assert "healthy" in shell(f"{shlex.quote(sys.executable)} -m {look}").stdout
