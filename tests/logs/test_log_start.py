"""What the log says of a start, and of every sample where that is asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_logs import run_unstuck

from unstuck.inside.format import Kind
from unstuck.logs.files import Line
from unstuck.logs.rank import SAMPLES, SampleTimes
from unstuck.logs.writer import _few
from unstuck.recordings.tail import Record

TRAINING = """
import numpy, torch, unstuck
from torch.utils.data import DataLoader, Dataset

class Studies(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        with unstuck.stage("Volume decode", item=f"study_{index:03}") as stage:
            volume = numpy.load(PATH)
            stage.made(volume)
        return torch.from_numpy(volume).float()

PATH = __file__ + ".npy"
if __name__ == "__main__":
    numpy.save(PATH, numpy.zeros((2, 3)))
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Studies(), batch_size=4, num_workers=1):
        model(batch).sum().backward()
        optimizer.step()
"""


@pytest.mark.scenario
def test_a_start_and_every_sample_have_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", "/data/studies")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hidden@db/studies")
    ended = run_unstuck(tmp_path, "--sample-times", text=TRAINING)
    assert ended.returncode == 0, ended.stderr
    text = "".join(path.read_text() for path in tmp_path.rglob("debug_rank0_*.log"))
    # then each part of the start is told
    assert "[START] variables: DATA_DIR=/data/studies\n" in text
    assert re.search(r"\[START\] imports: torch is there, after \S+ m?s\n", text)
    assert re.search(r"\[START\] model: 4 parameters in 2 tensors, made in", text)
    assert "[FIRST_BATCH] loading begins: loader 1, rank 0 of 1\n" in text
    assert re.search(r"✅ \[FIRST_BATCH\] the first batch .* ready after .*: float32\[4, 2, 3\], on cpu\n", text)
    assert "first optimizer step: torch.optim.sgd.SGD, on cpu\n" in text
    # and so is each sample
    for number in (0, 11):
        assert re.search(rf"Worker 0\] \[study_{number:03}\] Volume decode: 0\.\d{{4}}s \(shape=\(2, 3\)\)\n", text)
        assert re.search(rf"Worker 0\] \[study_{number:03}\] TOTAL: 0\.\d{{4}}s \(index {number}\)\n", text)


class Texts:
    """Stands in for a recording: strings, and times that are seconds."""

    def string(self, number: int) -> str:
        return {1: "read", 2: "decode", 7: "/a.npy", 8: "study_001", 9: "(4, 5)"}.get(number, "")

    def seconds(self, moment: int) -> float:
        return moment / 1e9


def stage(key: int, start: float, seconds: float, item: int = 0, shape: int = 0, own: int = 1) -> Record:
    return Record(Kind.STAGE, key, int(start * 1e9), int(seconds * 1e9), item, shape, own)


def test_what_no_stage_is_around_is_processing_and_the_users_name_counts_more() -> None:
    # given a reader, then a stage of the user's with another inside of it, all in one sample of three seconds
    records = [
        stage(1, 10.1, 0.5, item=7),
        stage(1, 11.1, 0.2),
        stage(2, 11.0, 1.0, item=8, shape=9, own=2),
        Record(Kind.SAMPLE, 0, int(10e9), int(3e9), 17, 4, 0),
    ]
    lines = SampleTimes(Texts()).lines("[Rank 0]", records)  # type: ignore[arg-type]
    assert [one.text for one in lines] == [
        "[Rank 0] [/a.npy] read: 0.5000s",
        "[Rank 0] [study_001] read: 0.2000s",
        "[Rank 0] [study_001] decode: 1.0000s (shape=(4, 5))",
        "[Rank 0] [study_001] process: 1.5000s",
        "[Rank 0] [study_001] TOTAL: 3.0000s (index 17)",
    ]


def test_stages_wait_for_their_sample_which_is_written_later() -> None:
    times = SampleTimes(Texts())  # type: ignore[arg-type]
    assert times.lines("[Rank 0]", [stage(1, 10.1, 0.5)]) == []
    found = times.lines("[Rank 0]", [Record(Kind.SAMPLE, 0, int(10e9), int(1e9), -1, 4, 0)])
    assert [one.text for one in found][-1] == "[Rank 0] [number 4 of its stream] TOTAL: 1.0000s"


def test_lines_about_samples_make_room_for_all_others() -> None:
    lines = [Line(float(number), "DEBUG", SAMPLES, "x") for number in range(50)]
    lines.append(Line(50.0, "INFO", "epoch", "the end"))
    assert [one.text for one in _few(lines, "[Rank 0]", 10)][-2:] == [
        "the end",
        "[Rank 0] 41 lines are dropped here: they came too fast",
    ]
