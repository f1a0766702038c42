"""Shards, and errors on the way through them, have their lines in the log of the rank."""

from __future__ import annotations

import pytest
from test_logs import run_unstuck

SHARDS = """
import warnings
import torch, webdataset as wds

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in "abc":
        with wds.TarWriter(f"{__file__}.{name}.tar") as shard:
            for number in range(4):
                shard.write({"__key__": f"{name}{number}", "txt": "words"})
    urls = [f"{__file__}.{name}.tar" for name in ("a", "b", "missing", "c")]
    words = wds.WebDataset(urls, shardshuffle=False, handler=wds.ignore_and_continue)
    for sample in wds.WebLoader(words, batch_size=None, num_workers=2):
        pass
    for epoch in range(2):
        list(wds.WebLoader(words, batch_size=None, num_workers=0))
"""


@pytest.mark.scenario
def test_files_of_each_worker_and_errors_of_shards_are_lines_that_can_be_searched_for(tmp_path):
    ended = run_unstuck(tmp_path, text=SHARDS)

    assert ended.returncode == 0, ended.stderr
    lines = [line for path in tmp_path.rglob("debug_rank0_*.log") for line in path.read_text().splitlines()]
    assert sum("[Rank 0 Worker 0/2] Processing 2/4 files from " in line for line in lines) == 1
    assert sum("[Rank 0 Worker 1/2] Processing 2/4 files from " in line for line in lines) == 1
    assert not [line for line in lines if "Processing ?/?" in line]
    (error,) = [line for line in lines if "[ERROR]" in line and "Worker" in line]
    assert "[Rank 0 Worker 0] Error opening shard" in error
    assert "ignore_and_continue went on, the whole shard is left out" in error
    assert (
        sum("[Rank 0 Worker 1] went through 2 files of " in line and line.endswith("samples: 8") for line in lines) == 1
    )
    assert "[Rank 0 Worker 0] COMPLETED iteration, total samples: 4" in "".join(lines)
    assert sum(line.endswith("[Rank 0] COMPLETED iteration, total samples: 12") for line in lines) == 2
