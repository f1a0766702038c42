"""`unstuck tune` on real loaders: it measures, goes on after a setting that dies, and can be interrupted."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from unstuck.evidence.loader import Loader
from unstuck.evidence.trial import Measured, Proposal, Search, Target, Trial
from unstuck.report import Report, RunName
from unstuck.trials.tune.proposals import Made, code_of, debug_code
from unstuck.views.console import console_for
from unstuck.views.tuning import show

LOADER = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
class Far(Dataset):
    def __init__(self, most): self.most = most
    def __len__(self): return 5000
    def __getitem__(self, index):
        crew = get_worker_info()
        if crew is not None and crew.num_workers > self.most:
            os._exit(3)
        time.sleep(0.01)
        return torch.zeros(1000)
def make(most=99): return DataLoader(Far(most), batch_size=4, num_workers=1)
"""
INTERRUPTED = 130


@pytest.mark.scenario
def test_settings_are_found_by_measuring_and_one_that_dies_is_a_result(unstuck, script):
    path = script(LOADER, "far.py")

    ended = unstuck("tune", f"{path}:make", "--kwargs", "most=3", "--seconds", "8", "--json")

    assert ended.returncode == 0, ended.stderr
    trial = msgspec.json.decode(ended.stdout, type=Report).trial
    tried = {one.workers: one for one in trial.measured}
    assert "exit" in tried[4].failed
    assert tried[2].rate > 1.5 * tried[0].rate
    assert [one.name for one in trial.proposals] == ["careful", "balanced", "fast"]
    fast = trial.proposals[-1]
    assert fast.setting.workers in (2, 3)
    assert fast.code.startswith("DataLoader(dataset, batch_size=4, num_workers=")
    assert 0 < fast.memory < 1 << 30
    assert trial.search.settings <= trial.search.grid / 4


@pytest.mark.scenario
@pytest.mark.calm
def test_the_cheapest_setting_for_a_step_is_the_careful_one(unstuck, script):
    path = script(LOADER, "far.py")

    ended = unstuck("tune", f"{path}:make", "--seconds", "12", "--step-ms", "30", "--json")

    assert ended.returncode == 0, ended.stderr
    trial = msgspec.json.decode(ended.stdout, type=Report).trial
    careful = trial.proposals[0].setting
    assert careful.workers in (2, 3)  # a batch takes 40 ms to load
    assert careful.starved <= 0.02


@pytest.mark.scenario
def test_interrupted_it_tells_what_was_measured_and_leaves_nothing(tmp_path, script):
    path = script(LOADER, "far.py")
    command = [sys.executable, "-m", "unstuck", "tune", f"{path}:make", "--run-dir", str(tmp_path / "runs")]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*/trial-*/answer-2.json")):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=120)

    assert running.returncode == INTERRUPTED, out
    assert "interrupted" in out
    assert "samples/s by num_workers" in out
    assert "Traceback" not in out
    assert subprocess.run(["pgrep", "-f", str(tmp_path)], check=False, stdout=subprocess.DEVNULL).returncode == 1
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{running.pid}_")]


def measured(workers, rate, **more):
    words = f"num_workers={workers}"
    return Measured(
        words, workers=workers, prefetch=2 if workers else None, rate=rate, noise=0.02, memory=1 << 28, **more
    )


def shown(trial):
    out = io.StringIO()
    report = Report(unstuck="0", run=RunName("tune", [], 0.0, "here"), state="healthy", trial=trial)
    show(report, console_for(out, width=110))
    return out.getvalue()


def test_table_plot_settings_and_formula_are_shown():
    loader = Loader(0, dataset="Far", batch_size=4, num_workers=1, prefetch_factor=2)
    best = measured(4, 400.0)
    trial = Trial(
        "tune",
        target=Target("far.py:make", loader=loader),
        measured=[measured(0, 90.0), measured(1, 100.0), best, measured(8, 0.0, failed="it hung")],
        search=Search(settings=4, grid=65, formula=12, memory=1 << 30, debug="DataLoader()"),
        proposals=[Proposal("fast", best, 1 << 28, "the fastest measured", "DataLoader(dataset, num_workers=4)")],
    )  # fmt: skip

    text = shown(trial)

    assert "as it is" in next(line for line in text.splitlines() if line.split()[:2] == ["1", "2"])
    assert "it hung" in text
    bars = {line.split()[0]: line.count("█") for line in text.splitlines() if "█" in line}
    assert bars["4"] == 40
    assert bars["1"] == 10
    assert "12 not measured" in text
    assert "the usual formula" in text
    assert "400 samples/s ± 2 %, 256 MiB of 1.0 GiB: the fastest measured" in text
    assert "DataLoader(dataset, num_workers=4)" in text


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (Made(loader=Loader(0, batch_size=32, shuffle=True)),
         "DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4, prefetch_factor=2, persistent_workers=True)"),
        (Made("LightningDataModule", Loader(0, batch_size=32)),
         "DataLoader(dataset, batch_size=32, num_workers=4, prefetch_factor=2, persistent_workers=True)"
         "  # in train_dataloader()"),
        (Made("WebLoader", Loader(0, iterable=True)),
         "wds.WebLoader(dataset, batch_size=None, num_workers=4, prefetch_factor=2, persistent_workers=True)"),
        (Made(of_run=Loader(0, made_by="TrainingArguments")),
         "TrainingArguments(dataloader_num_workers=4, dataloader_prefetch_factor=2, "
         "dataloader_persistent_workers=True)"),
    ],
)  # fmt: skip
def test_the_code_is_in_the_words_of_whoever_makes_the_loader(made, code):
    assert code_of(made, measured(4, 1.0, persistent=True)) == code


def test_a_loader_to_debug_with_has_small_batches_and_no_workers():
    assert debug_code(Made(loader=Loader(0, batch_size=32))) == "DataLoader(dataset, batch_size=4, num_workers=0)"
