"""The text logs of real runs: what stands in them, and the commands that people use on such logs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.logs.files import read

TRAINING = """
import time, torch, unstuck
from torch.utils.data import DataLoader, Dataset

class Cells(Dataset):
    def __init__(self, length):
        self.files = [f"cell-{number}" for number in range(length)]
        self.cache_latents, self.bucket_reso_steps = True, 64
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        return torch.tensor([float(index)])

if __name__ == "__main__":
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    training = DataLoader(Cells(1200), batch_size=4, shuffle=True, num_workers=2)
    validation = DataLoader(Cells(100), batch_size=4)
    step = 0
    for epoch in range(2):
        for batch in training:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            unstuck.metric(loss=loss.item(), step=step)
            step += 1
        with torch.no_grad():
            for batch in validation:
                unstuck.metric(val_loss=model(batch).square().mean().item())
        torch.save(model.state_dict(), f"epoch-{epoch}.pt")
    print("output of the training")
"""
SHARDS = """
import sys, time, torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

class Shards(IterableDataset):
    def __init__(self):
        self.paths = [f"/nowhere/part-{number}.tar" for number in range(4)]
    def __iter__(self):
        for number, path in enumerate(self.paths[get_worker_info().id :: 2]):
            for sample in range(8):
                yield torch.tensor([float(sample)])
            if number == 1:
                open(path)

if __name__ == "__main__":
    print("a line of output")
    print("a line of complaint", file=sys.stderr)
    for line in range(40_000):
        print("chatter " * 16)
    for batch in DataLoader(Shards(), batch_size=4, num_workers=2):
        pass
"""


def run_unstuck(folder: Path, *words: str, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text)
    command = [sys.executable, "-m", "unstuck", "run", *words, "--", sys.executable, "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)


def logs_in(folder: Path) -> Path:
    (found,) = (folder / "unstuck-runs").glob("*/logs")
    return found


def grep(logs: Path, pattern: str, files: str) -> list[str]:
    """As a person would, in a shell."""
    command = f"grep -h {pattern} {files}"
    return subprocess.run(
        ["sh", "-c", command], cwd=logs, capture_output=True, text=True, check=False
    ).stdout.splitlines()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    ended = run_unstuck(folder, text=TRAINING)
    assert ended.returncode == 0, ended.stderr
    return folder, ended


@pytest.fixture(scope="module")
def logs(trained):
    return logs_in(trained[0])


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crashed")
    return folder, run_unstuck(folder, "--quiet", text=SHARDS)


@pytest.mark.scenario
def test_a_healthy_run_says_nothing_of_its_logs_on_the_console(trained):
    _, ended = trained

    assert ended.stdout == "output of the training\n"
    assert "logs" not in ended.stderr
    # On a busy machine, the watcher may say meanwhile that nothing moves.
    assert len([line for line in ended.stderr.splitlines() if "no progress" not in line]) == 1


@pytest.mark.scenario
def test_there_is_a_main_log_and_one_for_the_rank_named_by_time(logs):
    names = sorted(one.name for one in logs.iterdir())

    assert len(names) == 2
    assert re.fullmatch(r"debug_rank0_\d{8}_\d{6}\.log", names[0])
    assert re.fullmatch(r"train_\d{8}_\d{6}\.log", names[1])


@pytest.mark.scenario
def test_every_line_has_time_level_and_name_and_the_marks_are_in_order(logs):
    for path in logs.iterdir():
        lines = path.read_text().splitlines()
        assert [line for line in lines if read(line) is None] == []
        marks = [read(line).at for line in lines if "EPOCH" in line and "=====" in line]
        assert marks == sorted(marks)


@pytest.mark.scenario
@pytest.mark.parametrize(
    ("pattern", "files", "count"),
    [
        ("ERROR", "train_*.log", 0),
        ('"EPOCH.*START\\|EPOCH.*END"', "debug_rank0_*.log", 8),
        ('"EPOCH.*START\\|EPOCH.*END"', "train_*.log", 8),
        ('"COMPLETED"', "debug_rank*.log", 6),
        ('"Processing.*files"', "debug_rank0_*.log", 2),
        ('"Processed.*training batches"', "debug_rank0_*.log", 6),
        ('"Validation step"', "debug_rank0_*.log", 4),
        ('"ERROR.*shard"', "debug_rank*.log", 0),
        ('"Checkpoint saved"', "train_*.log", 2),
        ('"Training step .*loss="', "debug_rank0_*.log", 6),
    ],
)
def test_the_usual_commands_find_what_they_look_for(logs, pattern, files, count):
    assert len(grep(logs, pattern, files)) == count


@pytest.mark.scenario
def test_the_marks_name_epoch_and_kind(logs):
    found = [re.search(r"EPOCH \d \w+ \w+", line)[0] for line in grep(logs, "EPOCH.*=====", "debug_rank0_*.log")]

    epoch = ["TRAINING START", "TRAINING END", "VALIDATION START", "VALIDATION END"]
    assert found == [f"EPOCH {number} {mark}" for number in (0, 1) for mark in epoch]


@pytest.mark.scenario
def test_steps_have_their_loss_and_workers_their_totals(logs):
    steps = grep(logs, '"Training step"', "debug_rank0_*.log")
    totals = grep(logs, '"COMPLETED iteration"', "debug_rank0_*.log")

    assert [int(re.search(r"Training step (\d+), loss=\d", line)[1]) for line in steps] == [0, 100, 200, 300, 400, 500]
    assert all(re.search(r"Validation step \d+, loss=\d", line) for line in grep(logs, '"Validation step"', "debug*"))
    worker_totals = sorted(line.partition("[Rank 0")[2] for line in totals if "Worker" in line)
    assert worker_totals == [f" Worker {n}] COMPLETED iteration, total samples: 600" for n in (0, 0, 1, 1)]
    assert [line[-29:] for line in totals if "Worker" not in line] == ["iteration, total samples: 100"] * 2


@pytest.mark.scenario
@pytest.mark.parametrize(
    "marker",
    [
        "🔍 [DATA_FLOW] DataLoader created: loader 1",
        "🔍 [DATA_FLOW] - batch_size=4, shuffle=True, drop_last=False, num_workers=2",
        "🔍 [DATA_FLOW] - DataLoader length: 300",
        "🔍 [DATA_FLOW] - mode: standard",
        "🔍 [DATASET_INIT] loader 1: __main__.Cells (map-style)",
        "🔍 [DATASET_INIT] - attributes: files=list of 1200, cache_latents=True, bucket_reso_steps=64",
        "🔍 [DATASET_INIT] - cache: cache_latents=True",
        "🔍 [DATASET_INIT] - buckets: bucket_reso_steps=64",
        "🔍 [DATASET_INIT] - dataset length: 1200",
        "🔍 [SETUP_EPOCH] pass 1 over loader 1",
        "🔍 [DATASET] first sample: index",
        "🔍 [TRAIN_PROCESS] pid",
        "🔍 [TRAIN_PROCESS] first optimizer step: torch.optim.sgd.SGD",
        "🔍 [TRAIN_LOOP] - main data iterator created",
        "[Rank 0 Worker 0/2] Processing 600/1200 samples from __main__.Cells, files listed: files 1200",
    ],
)
def test_the_markers_stand_in_the_ranks_log(logs, marker):
    (path,) = logs.glob("debug_rank0_*.log")

    assert marker in path.read_text()


@pytest.mark.scenario
def test_the_main_log_begins_with_the_run_and_ends_with_the_verdict(logs):
    (path,) = logs.glob("train_*.log")
    texts = [read(line).text for line in path.read_text().splitlines()]

    assert texts[0] == "Starting training..."
    assert texts[1] == f"Monitor logs with: tail -f {path}"
    assert "command: " in texts[3]
    assert texts[-3].startswith("Training exited with code 0 after")
    assert texts[-2:] == ["healthy: nothing found", "The log ends here."]


@pytest.mark.scenario
def test_the_command_shows_filters_and_ends(trained, unstuck):
    folder, _ = trained
    (run,) = (folder / "unstuck-runs").iterdir()

    newest = unstuck("logs", "-f", "--grep", r"EPOCH.*START\|EPOCH.*END", cwd=folder)
    rank = unstuck("logs", run, "--rank", "0", "--level", "INFO", "--json", "--grep", "COMPLETED")
    everything = unstuck("logs", run, "--level", "DEBUG", "-n", "3")

    assert len(newest.stdout.splitlines()) == 8
    known = json.loads(rank.stdout.splitlines()[0])
    assert (known["level"], known["rank"], known["name"]) == ("INFO", 0, "unstuck.data")
    assert len(everything.stdout.splitlines()) == 3
    assert {one.returncode for one in (newest, rank, everything)} == {0}


@pytest.mark.scenario
def test_the_command_says_what_there_is_not(trained, unstuck):
    (run,) = (trained[0] / "unstuck-runs").iterdir()

    told = [unstuck("logs", run, "--rank", "3"), unstuck("logs", run, "--output"), unstuck("logs", run, "--grep", "(")]

    assert [one.returncode for one in told] == [2, 2, 2]
    assert told[0].stderr == "unstuck: there is no log of rank 3; the ranks are 0\n"
    assert "--quiet" in told[1].stderr
    assert "regular expression" in told[2].stderr


@pytest.mark.scenario
def test_logs_are_written_again_from_the_recordings(trained, unstuck, tmp_path):
    (run,) = (trained[0] / "unstuck-runs").iterdir()
    copy = shutil.copytree(run, tmp_path / "copy")
    before = {path.name: path.read_text() for path in (copy / "logs").iterdir()}

    beside = unstuck("logs", copy, "--rewrite")
    shutil.rmtree(copy / "logs")
    again = unstuck("logs", copy, "--rewrite")

    assert "rewritten_" in beside.stdout
    assert sorted(again.stdout.split()) == sorted(str(copy / "logs" / name) for name in before)
    for pattern in ("EPOCH", "COMPLETED", "Checkpoint", "Processed", "Training step"):
        kept = [line for line in before[max(before)].splitlines() if pattern in line]
        now = [line for line in (copy / "logs" / max(before)).read_text().splitlines() if pattern in line]
        assert now == kept


@pytest.mark.scenario
def test_a_quiet_run_keeps_the_output_in_a_file_and_key_lines_on_the_console(crashed):
    folder, ended = crashed
    (output,) = logs_in(folder).glob("output_*.log")

    text = output.read_text()
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "chatter" not in ended.stderr
    assert "[unstuck] Monitor logs with: tail -f" in ended.stderr.splitlines()[0]
    assert "❌ [Rank 0 Worker" in ended.stderr
    assert text.startswith("a line of output\n") or "a line of complaint\n" in text
    assert text.count("chatter") == 40_000 * 16
    assert "FileNotFoundError" in text


@pytest.mark.scenario
def test_a_shard_that_cannot_be_read_is_an_error_with_rank_worker_and_file(crashed):
    logs = logs_in(crashed[0])

    (error, *_) = grep(logs, '"ERROR.*shard"', "debug_rank*.log")
    main = grep(logs, "ERROR", "train_*.log")

    assert re.search(r"\[ERROR\] \[unstuck.error\] ❌ \[Rank 0 Worker [01]\] Error reading shard /nowhere/part-", error)
    assert any("Uncaught exception: FileNotFoundError" in line for line in main)
    assert any("crashed:" in line and "(worker-python-exception)" in line for line in main)
    assert any("Training exited with code 1" in line for line in main)


@pytest.mark.scenario
def test_with_info_there_is_no_line_about_batches(tmp_path):
    run_unstuck(tmp_path, "--log-level", "INFO", text=TRAINING.replace("unstuck.metric", "dict"))

    written = "".join(path.read_text() for path in logs_in(tmp_path).iterdir())
    assert "[DEBUG]" not in written
    assert "EPOCH 1 VALIDATION END" in written
