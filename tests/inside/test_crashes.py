"""A worker that crashes leaves its Python stack behind, and everything that was printed before is printed still."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from running import Run

pytestmark = pytest.mark.scenario  # real trainings that crash, each takes a few seconds

Started = Callable[..., Run]


def leftovers(run: Run) -> list[str]:
    return sorted(path.name for path in run.folder.glob("*.stacks"))


CRASH = """
import ctypes, faulthandler, sys
from torch.utils.data import DataLoader

class Crashing:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 4:
            ctypes.string_at(0)
        return index

def prepare(worker):
    {prepare}

for batch in DataLoader(Crashing(), batch_size=2, num_workers=1, worker_init_fn=prepare):
    pass
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_that_crashes_leaves_its_stack_and_torch_says_what_it_always_says(
    started: Started, method: str
) -> None:
    program = f"""
import multiprocessing
{CRASH.format(prepare="pass").split("for batch")[0]}
if __name__ == "__main__":
    multiprocessing.set_start_method({method!r})
    for batch in DataLoader(Crashing(), batch_size=2, num_workers=1):
        pass
"""
    plain, run = started(program, recorded=False), started(program)
    # given torch's own words about it; then they are there as ever, and so is the signal
    words = "ERROR: Unexpected segmentation fault encountered in worker."
    assert words in plain.err
    assert words in run.err
    assert {-signal.SIGSEGV} in run.exits().values()
    # and the stack is in the worker's file
    (name,) = leftovers(run)
    said = (run.folder / name).read_text()
    assert "Fatal Python error: Segmentation fault" in said
    assert "in __getitem__" in said
    assert name.split(".")[-3] == str(run.workers[0].process().pid)


@pytest.mark.parametrize("prepare", ["faulthandler.enable()", "faulthandler.enable(sys.stdout)"])
def test_a_user_who_has_crashes_printed_still_has_them_printed(started: Started, prepare: str) -> None:
    run = started(CRASH.format(prepare=prepare))
    printed = run.out if "stdout" in prepare else run.err
    assert "in __getitem__" in printed
    assert "ERROR: Unexpected segmentation fault encountered in worker." in run.err


def test_with_pythonfaulthandler_a_worker_crashes_as_without_us(started: Started) -> None:
    variables = {"PYTHONFAULTHANDLER": "1"}
    program = CRASH.format(prepare="pass")
    plain, run = started(program, recorded=False, variables=variables), started(program, variables=variables)
    assert ("in __getitem__" in run.err) == ("in __getitem__" in plain.err)
    assert {-signal.SIGSEGV} in run.exits().values()
