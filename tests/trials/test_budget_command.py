"""`unstuck budget` as people and machines use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOADERS = Path(__file__).parent / "real_loaders.py"


def asked(*words):
    command = [sys.executable, "-m", "unstuck", "budget", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_plain_numbers_are_multiplied_graded_and_what_is_missing_is_said():
    ended = asked("--sample-mb", "220", "--workers", "16", "--batch", "8", "--prefetch", "2", "--memory", "64G")

    assert ended.returncode == 1  # 16 × 2 × 8 × 220 MB wait, as much as 56 GB
    assert "16 workers × prefetch 2 × batch of 8 × 210 MiB" in ended.stdout
    assert "--decode-mb: as much again as the sample" in ended.stdout
    assert "memory-budget-exceeded" in ended.stdout


def test_what_fits_is_no_finding():
    ended = asked("--sample-mb", "1", "--workers", "2", "--batch", "8", "--memory", "64G", "--json")

    report = json.loads(ended.stdout)
    assert (ended.returncode, report["state"], report["trial"]["budget"]["grade"]) == (0, "healthy", "safe")


def test_nothing_to_calculate_with_is_one_line_that_says_what_to_do():
    ended = asked("--workers", "4")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "unstuck: no TARGET and no --sample-mb; name a TARGET, or give --sample-mb with --workers and --batch\n"
    )


@pytest.mark.scenario
def test_a_real_loader_is_measured_and_asked_what_if(tmp_path):
    kwargs = json.dumps({"root": str(tmp_path), "side": 64})
    target = f"{LOADERS}:volumes"

    ended = asked(target, "--kwargs", kwargs, "--workers", "5", "--batch", "3", "--json", "--run-dir", str(tmp_path))

    budget = json.loads(ended.stdout)["trial"]["budget"]
    sizes = {one["name"]: one["size"] for one in budget["terms"]}
    shipped = 64**3 * 5  # four bytes a voxel, and one for the mask
    assert 1 <= sizes["waiting"] / (5 * 2 * 3 * shipped) < 1.05
    assert 1 <= sizes["being made"] / (5 * 3 * shipped) < 1.05
    assert sizes["main process"] > 50 << 20
    assert budget["grade"] == "safe"


@pytest.mark.scenario
@pytest.mark.calm
def test_a_worker_is_taken_as_large_as_its_share_of_a_pass_makes_it(tmp_path):
    kwargs = json.dumps({"root": str(tmp_path), "batch": 8, "length": 256})

    ended = asked(f"{LOADERS}:images", "--kwargs", kwargs, "--json", "--run-dir", str(tmp_path / "runs"))

    terms = {one["name"]: one["how"] for one in json.loads(ended.stdout)["trial"]["budget"]["terms"]}
    assert "more than a busy one holds, after 16 batches" in terms["allocator"]  # of 32, which 2 workers share


LATE = """
import torch
from torch.utils.data import DataLoader, Dataset

class Broken(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        if index == 77:
            raise KeyError(index)
        return torch.zeros(100)

def loader():
    return DataLoader(Broken(), batch_size=4, num_workers=2)
"""


@pytest.mark.scenario
def test_a_sample_that_fails_only_in_the_busy_worker_is_named_and_what_is_known_is_told(tmp_path):
    (tmp_path / "late.py").write_text(LATE)

    ended = asked(f"{tmp_path}/late.py:loader", "--json", "--run-dir", str(tmp_path / "runs"))

    report = json.loads(ended.stdout)
    assert (ended.returncode, report["findings"][0]["rule"]) == (1, "fails-on-sample")
    assert report["findings"][0]["cause"].startswith("Sample 77 of Broken raised")
    assert report["trial"]["budget"]["grade"] == "safe"
