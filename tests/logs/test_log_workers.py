"""Workers whose parent is a fork server have their lines in the log like all others."""

from __future__ import annotations

import pytest
from test_logs import run_unstuck

FORK_SERVER = """
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    for batch in DataLoader(torch.arange(8.0), batch_size=2, num_workers=2, multiprocessing_context="forkserver"):
        pass
"""


@pytest.mark.scenario
def test_workers_of_a_fork_server_have_their_lines_too(tmp_path):
    ended = run_unstuck(tmp_path, text=FORK_SERVER)

    assert ended.returncode == 0, ended.stderr
    text = "".join(path.read_text() for path in tmp_path.rglob("debug_rank0_*.log"))
    assert "[Rank 0 Worker 0] COMPLETED iteration, total samples: 4" in text
    assert "[Rank 0 Worker 1] COMPLETED iteration, total samples: 4" in text
