"""`unstuck.metric`, and what loggers and `torch.save` tell of a training."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Run, environment, write

from unstuck.inside.format import Kind

Recorded = Callable[..., Run]


def newest(run: Run) -> dict[str, tuple[float, int]]:
    return {one.name: (one.value, one.step) for one in run.main.process().metrics}


def test_the_newest_value_of_each_name_is_kept_with_its_step(recorded: Recorded) -> None:
    run = recorded("""
        import unstuck
        for step in range(5):
            unstuck.metric(loss=1.0 / (step + 1), step=step)
        unstuck.metric(accuracy=1, epoch_time=2.5)
    """).succeeded()
    assert newest(run) == {"loss": (0.2, 4), "accuracy": (1.0, -1), "epoch_time": (2.5, -1)}
    assert len(run.main.events(Kind.METRIC)) == 7


def test_numbers_of_numpy_and_tensors_on_the_cpu_count_and_nothing_else_does(recorded: Recorded) -> None:
    run = recorded("""
        import numpy, torch, unstuck

        class Odd:
            def __float__(self):
                raise KeyboardInterrupt

        unstuck.metric(a=numpy.float32(0.5), b=numpy.float64(1.5), c=torch.tensor(2.5, requires_grad=True), d=True)
        unstuck.metric(e=torch.zeros(3), f="0.5", g=None, h=Odd(), i=torch.zeros(1, device="meta"), j=10**400)
        unstuck.metric(k=float("nan"), l=float("inf"), step=-3)
        print("fine")
    """).succeeded()
    found = newest(run)
    assert run.out == "fine\n"
    assert {name: value for name, (value, _) in found.items() if name in "abcd"} == {
        "a": 0.5,
        "b": 1.5,
        "c": 2.5,
        "d": 1.0,
    }
    assert found.keys() == set("abcdkl")
    assert math.isnan(found["k"][0])


def test_made_up_names_take_no_room_from_loaders(recorded: Recorded) -> None:
    run = recorded("""
        import unstuck
        from torch.utils.data import DataLoader
        for number in range(100):
            unstuck.metric(**{f"loss_{number}": float(number)})
        for batch in DataLoader([1, 2, 3]):
            unstuck.metric(loss_99=1.0)
    """).succeeded()
    assert len(run.main.process().metrics) == 16
    assert run.main.process().loaders[0].batches == 3


def test_a_value_is_harmless_when_nothing_records(tmp_path: Path) -> None:
    script = write(tmp_path / "train.py", "import unstuck\nunstuck.metric(loss=object(), step='x')\nprint('reached')\n")
    ended = subprocess.run(
        [sys.executable, script], env=environment(None), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("reached\n", "")


COST = """
import timeit, unstuck
print(min(timeit.repeat(lambda: unstuck.metric(loss=0.5, step=7), number=100, repeat=1000)) / 100 * 1e6)
"""


def test_a_value_costs_next_to_nothing(recorded: Recorded) -> None:
    """The best of many short bursts, because others use this machine too: 2 µs on an idle one, and 3 are promised."""
    assert float(recorded(COST).succeeded().out) < 4


def test_a_forked_child_tells_into_its_own_recording(recorded: Recorded) -> None:
    run = recorded("""
        import multiprocessing, sys, unstuck
        process = sys.modules["_unstuck_inside.core.process"].process
        unstuck.metric(loss=1.0)
        def child():
            process.recording(1)
            unstuck.metric(loss=2.0)
        started = multiprocessing.get_context("fork").Process(target=child)
        started.start()
        started.join()
    """).succeeded()
    values = sorted(one.value for process in run.processes for one in process.metrics)
    assert values == [1.0, 2.0]


def test_a_loss_that_tensorboard_is_given_is_told(recorded: Recorded) -> None:
    pytest.importorskip("tensorboard")
    run = recorded("""
        import torch
        from torch.utils.tensorboard import SummaryWriter
        with SummaryWriter(__file__ + ".events") as writer:
            writer.add_scalar("Loss/train", torch.tensor(0.25), 7)
            writer.add_scalar("val_loss", scalar_value=0.5, global_step=8)
            writer.add_scalar("lr", 0.1, 9)
    """).succeeded()
    assert newest(run) == {"Loss/train": (0.25, 7), "val_loss": (0.5, 8)}
    assert run.main.process().adapters_failed == []


@pytest.mark.scenario
def test_a_loss_that_tensorboardx_is_given_is_told(recorded: Recorded) -> None:
    pytest.importorskip("tensorboardX")
    run = recorded("""
        from tensorboardX import SummaryWriter
        with SummaryWriter(__file__ + ".events") as writer:
            writer.add_scalar("loss", 0.25, 7)
    """).succeeded()
    assert newest(run) == {"loss": (0.25, 7)}


@pytest.mark.scenario
def test_a_loss_that_wandb_is_given_is_told(recorded: Recorded) -> None:
    pytest.importorskip("wandb")
    run = recorded("""
        import os
        os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=os.path.dirname(__file__))
        import wandb
        wandb.init(project="tiny")
        wandb.log({"train/loss": 0.25, "lr": 0.1, "image": [1, 2]}, step=7)
        wandb.log({"train/loss": 0.125})
        wandb.finish()
    """).succeeded()
    assert newest(run) == {"train/loss": (0.125, -1)}
    assert [one[5] - 1 for one in run.main.events(Kind.METRIC)] == [7, -1]


def test_what_is_saved_is_recorded_with_its_path_and_time(recorded: Recorded, tmp_path: Path) -> None:
    run = recorded("""
        import io, os, pathlib, torch
        os.chdir(os.path.dirname(__file__))
        torch.save(torch.zeros(10), "a.pt")
        torch.save(torch.zeros(10), f=pathlib.Path("b.pt"))
        with open("c.pt", "wb") as file:
            torch.save(torch.zeros(10), file)
        torch.save(torch.zeros(10), io.BytesIO())
        try:
            torch.save(torch.zeros(10), "/nowhere/d.pt")
        except RuntimeError as error:
            print("as ever", len(error.__traceback__.tb_frame.f_code.co_filename) > 0)
        assert torch.load("a.pt").tolist() == [0.0] * 10
    """).succeeded()
    tried = run.main.process().saved
    saved = [one for one in tried if not one.failed]
    assert [one.path for one in saved] == [*(str(tmp_path / f"{name}.pt") for name in "abc"), "<BytesIO>"]
    assert all(one.seconds > 0 for one in saved)
    assert [one.path for one in tried if one.failed] == ["/nowhere/d.pt"]
    assert run.out == "as ever True\n"


def test_a_dataset_that_caches_in_its_workers_saves_no_checkpoints(recorded: Recorded) -> None:
    run = recorded("""
        import io, torch
        from torch.utils.data import DataLoader

        class Caching:
            def __len__(self):
                return 4
            def __getitem__(self, index):
                torch.save(index, io.BytesIO())
                return index

        for batch in DataLoader(Caching(), num_workers=1):
            pass
    """).succeeded()
    assert [one.saved for one in run.processes] == [[], []]


def test_saving_with_every_step_pushes_no_note_out(recorded: Recorded) -> None:
    run = recorded("""
        import io, torch
        from torch.utils.data import DataLoader
        for batch in DataLoader([1, 2]):
            pass
        for step in range(600):
            torch.save(step, io.BytesIO())
    """).succeeded()
    assert len(run.main.process().saved) == 600
    assert len(run.main.noted(Kind.SAVE)) == 500
    assert run.main.process().loaders[0].batches == 2


@pytest.mark.scenario
def test_saves_are_seen_where_recording_begins_after_torch_was_imported(
    started: Callable[..., Run], tmp_path: Path
) -> None:
    run = started(
        """
        import io, pickle, torch, unstuck
        unstuck.watch()
        assert pickle.loads(pickle.dumps(torch.save)) is torch.save is torch.serialization.save
        for batch in torch.utils.data.DataLoader([1]):
            torch.save(batch, "late.pt")
        """,
        recorded=False,
        variables={"UNSTUCK_WATCHER": ""},
    ).succeeded()
    (folder,) = (tmp_path / "unstuck-runs").glob("*/recordings")
    (saved,) = Run(run.code, folder, run.out, run.err).main.process().saved
    assert saved.path == str(tmp_path / "late.pt")
