"""`unstuck doctor` for real, on a loader that is well: rungs that the scenarios do not climb."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 41
    def __getitem__(self, index): return torch.full((10,), float(index)), index % 3
def make(): return DataLoader(Numbers(), batch_size=4, num_workers=2, persistent_workers=True, shuffle=True)
"""


def doctor(folder, *words):
    command = [sys.executable, "-m", "unstuck", "doctor", *words, "--run-dir", str(folder / "runs")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.scenario
def test_passes_stops_and_ranks_of_a_healthy_loader(tmp_path):
    (tmp_path / "numbers_of.py").write_text(LOADER)

    ended = doctor(tmp_path, "numbers_of.py:make", "--only", "collate,second-epoch,mid-epoch,ranks", "--json")

    report = json.loads(ended.stdout)
    rungs = {one["name"]: one for one in report["trial"]["rungs"]}
    assert ended.returncode == 0, ended.stderr
    assert report["state"] == "healthy"
    assert {one["status"] for one in rungs.values()} == {"pass"}
    assert rungs["collate"]["reason"].startswith("float32[4, 10], int64[4]")
    assert rungs["second-epoch"]["reason"] == "11 and 11 batches"
    assert rungs["ranks"]["reason"] == "6 and 6 batches, DistributedSampler"
    assert "begun again" in rungs["mid-epoch"]["reason"]


@pytest.mark.scenario
def test_the_summary_points_at_the_first_failure(tmp_path):
    (tmp_path / "broken.py").write_text(LOADER.replace("index % 3", "{}[index]"))

    ended = doctor(tmp_path, "broken.py:make", "--only", "sample,samples,no-workers")

    lines = [line.split() for line in ended.stdout.splitlines() if " FAIL " in line or " SKIP " in line]
    assert ended.returncode == 1, ended.stderr
    assert "← here KeyError: 0, at broken.py:6 (index 0)" in ended.stdout
    assert [line[0] for line in lines] == ["sample", "samples", "no-workers"]
    assert "fails-on-sample" in ended.stdout
    assert "Traceback of sample" in ended.stdout
    assert "_unstuck_trial" not in ended.stdout
    assert "✗ FAIL" in ended.stderr


def test_the_rungs_can_be_listed_without_a_target(tmp_path):
    ended = doctor(tmp_path, "--list")

    assert ended.stdout.splitlines()[0].startswith("environment ")
    assert len(ended.stdout.splitlines()) == 13
