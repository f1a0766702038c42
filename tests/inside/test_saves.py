"""What is recorded of a save: its size and line, how it failed, whether it held the training up."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Run

from unstuck.evidence.process import Saved

Recorded = Callable[..., Run]
LOOPED = """
import os, threading, time
import torch
from torch.utils.data import DataLoader
os.chdir(os.path.dirname(__file__))
for batch in DataLoader([1]):
    pass
"""


def saved(run: Run) -> list[Saved]:
    return run.main.process().saved


def test_a_save_has_its_size_its_inode_and_the_line_it_was_called_from(recorded: Recorded, tmp_path: Path) -> None:
    run = recorded(
        LOOPED
        + """
def keep(state):
    torch.save(state, "model.pt")
keep(torch.zeros(1000))
"""
    ).succeeded()
    (one,) = saved(run)
    status = os.stat(tmp_path / "model.pt")
    assert (one.size, one.inode, one.failed) == (status.st_size, status.st_ino, "")
    assert one.where is not None
    assert (one.where.function, one.where.file.rpartition("/")[2]) == ("keep", "train.py")


def test_a_failure_that_the_training_swallows_is_recorded_with_what_remains(recorded: Recorded) -> None:
    # given a limit for the size of files, so that the system refuses the rest
    run = recorded(
        LOOPED
        + """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
for number in range(2):
    try:
        with open(f"{number}.pt", "wb") as file:
            torch.save(torch.zeros(4_000_000), file)
    except (RuntimeError, OSError):
        pass
"""
    ).succeeded()
    first, second = saved(run)
    assert (first.errno, first.size, first.limit) == (errno.EFBIG, 8 << 20, 8 << 20)
    assert first.failed.startswith("RuntimeError: ")
    assert first.free is not None
    assert second.path.endswith("1.pt")


def test_native_code_hides_the_errno_and_the_state_of_the_disk_is_there_all_the_same(recorded: Recorded) -> None:
    run = recorded(
        LOOPED
        + """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
try:
    torch.save(torch.zeros(4_000_000), "model.pt")
except RuntimeError:
    print("raised as ever")
"""
    ).succeeded()
    (one,) = saved(run)
    assert run.out == "raised as ever\n"
    assert (one.errno, one.size, one.limit) == (0, 8 << 20, 8 << 20)


def test_a_thread_that_saves_holds_nobody_up(recorded: Recorded) -> None:
    run = recorded(
        LOOPED
        + """
writer = threading.Thread(target=torch.save, args=(torch.zeros(1000), "model.pt"))
writer.start()
writer.join()
"""
    ).succeeded()
    (one,) = saved(run)
    assert one.background
    assert one.seconds == 0
    assert one.writing is not None
    assert one.writing > 0


@pytest.mark.scenario
def test_saving_asynchronously_is_one_save_with_two_times(recorded: Recorded) -> None:
    run = recorded(
        LOOPED
        + """
import warnings
warnings.simplefilter("ignore")
import torch.distributed.checkpoint as checkpoint
checkpoint.async_save({"a": torch.zeros(1000)}, checkpoint_id="later").result()
try:
    checkpoint.async_save({"a": torch.zeros(1)}, checkpoint_id="/proc/nowhere/later").result()
except BaseException as error:
    print(type(error).__name__)
"""
    ).succeeded()
    first, second = saved(run)
    assert run.out == "CheckpointException\n"
    assert (first.background, first.how, first.failed) == (True, "together", "")
    assert first.seconds > 0
    assert first.writing is not None
    assert first.size is not None
    assert second.failed.startswith("CheckpointException: ")
    assert "No such file or directory" in second.failed
    assert first.where is not None
    assert first.where.file.endswith("train.py")


def test_a_save_that_goes_on_is_on_the_board_until_it_ends(recorded: Recorded) -> None:
    # given a file that ends the process in the middle of a save, after one that was whole
    run = recorded(
        LOOPED
        + """
class Ends:
    def write(self, content):
        os._exit(0)
    def flush(self):
        pass

torch.save(1, "whole.pt")
torch.save(1, Ends())
"""
    )
    (one,) = run.main.process().saving
    assert (one.path, one.background) == ("<Ends>", False)
    assert [one.path.rpartition("/")[2] for one in saved(run)] == ["whole.pt"]


def test_ctrl_c_in_the_middle_of_a_save_leaves_nothing_open(recorded: Recorded) -> None:
    run = recorded(
        LOOPED
        + """
class Interrupts:
    def write(self, content):
        raise KeyboardInterrupt
    def flush(self):
        pass

try:
    torch.save(torch.zeros(10), Interrupts())
except (KeyboardInterrupt, RuntimeError):
    print("as ever")
"""
    ).succeeded()
    assert run.out == "as ever\n"
    assert run.main.process().saving == []
