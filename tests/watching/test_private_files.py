"""Whatever a command leaves behind is for its owner alone: of a run, a check, a doctor and a tuning, file by file."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT = 300.0
LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset

class Records(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.zeros(2)

def make_loader():
    return DataLoader(Records(), batch_size=2, num_workers=1)

if __name__ == "__main__":
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in make_loader():
        model(batch).sum().backward()
        optimizer.step()
"""
COMMANDS = {
    "run": (["run", "--quiet", "--", sys.executable, "train.py"], {"run.json", "report.json"}),
    "check": (["check", "data.jsonl"], {"asked.json", "checked.jsonl", "report.json"}),
    "doctor": (["doctor", "train.py:make_loader", "--only", "samples"], {"facts.json", "report.json", "request.json"}),
    "tune": (["tune", "train.py:make_loader", "--seconds", "4", "--step-ms", "1"], {"ask-1.json", "answer-1.json"}),
}


@pytest.mark.scenario
@pytest.mark.parametrize("name", COMMANDS)
def test_every_file_that_a_command_leaves_is_for_its_owner_alone(tmp_path: Path, name: str) -> None:
    words, wanted = COMMANDS[name]
    (tmp_path / "train.py").write_text(LOADER)
    (tmp_path / "data.jsonl").write_text('{"a": 1}\n')
    command = [sys.executable, "-m", "unstuck", *words]
    before = os.umask(0o022)  # as nearly everybody has it
    try:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    finally:
        os.umask(before)
    assert done.returncode in (0, 1), done.stderr

    left = list((tmp_path / "unstuck-runs").glob("*/**/*"))
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in left}
    assert wanted <= {path.name for path in left}, sorted(path.name for path in left)
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
