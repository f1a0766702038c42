"""Signal handlers raise inside whatever frame is running, ours too: all of that reaches the user, nothing of ours."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import TIMEOUT, Run, frames_of_ours

from unstuck.inside.format import Kind

STORM = """
import random, signal
import torch, unstuck
from torch.utils.data import DataLoader, IterableDataset

WANTED = {wanted}

class TimeOut(Exception):
    pass

raised = caught = 0

def handler(number, frame):
    global raised
    raised += 1
    raise TimeOut(raised)

signal.signal(signal.SIGALRM, handler)

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(7))  # the last batch is not full: the dataset ends in the middle of it

mapped = DataLoader(list(range(12)), batch_size=4)
stream = DataLoader(Stream(), batch_size=4)
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.ones(1)
optimizer = torch.optim.SGD([weight], lr=0.1)

def train(until):
    while until():
        for batch in mapped:
            with unstuck.stage("step", item=rounds):
                optimizer.step()
        for batch in stream:
            unstuck.progress("rows", 1, 2)
        len(mapped)
        DataLoader([1, 2], batch_size=2)

chance = random.Random(3)
rounds = 0
train(iter([True, False]).__next__)  # torch imports some of itself late, and shrugs at what is raised there
while raised < WANTED:
    rounds += 1
    try:
        # One shot: a second signal during the first one's flight would replace it, in any Python program.
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 700e-6))
        train(lambda: raised < rounds)
    except TimeOut:
        caught += 1

for batch in mapped:
    optimizer.step()
print(raised, caught, rounds)
"""


def storm(recorded: Callable[..., Run], wanted: int) -> None:
    # given a program whose time-outs strike anywhere in what we wrap
    run = recorded(STORM.format(wanted=wanted))
    # then every one that was raised was caught, none in vain, and nothing else came out
    assert run.succeeded().out.split() == [str(wanted)] * 3
    # and no adapter gave up: the last epoch and its steps are recorded like any
    assert run.main.noted(Kind.ADAPTER_FAILED) == []
    # Of that loader: what a time-out left of the stream's last pass may be written down after it.
    (mapped,) = [one.number for one in run.main.process().loaders if one.passes and not one.iterable]
    assert run.main.events(Kind.WAIT, mapped)[-1][5] == 2
    assert run.main.process().optimizer_steps > 100


def test_a_short_storm_of_time_outs_reaches_the_user_whole(recorded: Callable[..., Run]) -> None:
    storm(recorded, 500)


@pytest.mark.scenario
def test_ten_thousand_time_outs_all_reach_the_user(recorded: Callable[..., Run]) -> None:
    storm(recorded, 10_000)


ANY_LINE = """
import sys
import torch, unstuck
from torch.utils.data import DataLoader, IterableDataset

OURS = sys.modules["_unstuck_inside.core.guard"].HERE

class TimeOut(Exception):
    pass

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))

weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.ones(1)
optimizer = torch.optim.SGD([weight], lr=0.1)

def train():
    mapped = DataLoader(list(range(4)), batch_size=2)
    len(mapped)
    for batch in mapped:
        with unstuck.stage("step", item="x"):
            optimizer.step()
    for batch in DataLoader(Stream(), batch_size=2):
        unstuck.progress("rows", 1, 2)

class Strike:
    def __init__(self, line):
        self.left = line
        self.where = None
    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename.startswith(OURS):
            return self.line
    def line(self, frame, event, argument):
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise TimeOut(self.where)
        return self.line

train()
struck = set()
lost = []
for line in range(1, 100_000):
    strike = Strike(line)
    try:
        sys.settrace(strike)
        train()
    except TimeOut:
        pass
    else:
        if strike.where is None:
            break
        lost.append(strike.where)
    finally:
        sys.settrace(None)
    struck.add(strike.where)
train()
print(len(struck), lost)
"""


@pytest.mark.scenario
def test_an_exception_on_any_line_of_ours_reaches_the_user_and_spoils_nothing(recorded: Callable[..., Run]) -> None:
    # given an exception that strikes once on every line of ours that a training runs through
    run = recorded(ANY_LINE).succeeded()
    # then each has reached the user, and the recorder is in order
    lines, lost = run.out.split(maxsplit=1)
    assert lost == "[]\n"
    assert int(lines) > 150
    assert run.main.process().adapters_failed == []
    waits = run.main.events(Kind.WAIT)
    assert [one[5] for one in waits[-4:]] == [0, 1, 0, 1]


INTERRUPTED = """
import time
from torch.utils.data import DataLoader

class Slow:
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.01)
        return index

try:
    for batch in DataLoader(Slow(), batch_size=2, num_workers={workers}):
        print("batch", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    {then}
"""


def interrupt_when_it_prints(out: Path) -> Callable[[int], None]:
    def interrupt(pid: int) -> None:
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until and not (out.exists() and "batch" in out.read_text()):
            time.sleep(0.01)
        os.killpg(pid, signal.SIGINT)

    return interrupt


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_reaches_the_user_and_the_recording_is_readable(
    recorded: Callable[..., Run], tmp_path: Path, workers: int
) -> None:
    # given a training; when the terminal's Ctrl-C goes to the whole group
    interrupt = interrupt_when_it_prints(tmp_path / "recordings" / "out")
    run = recorded(INTERRUPTED.format(workers=workers, then="pass"), during=interrupt)
    # then the user's handler has it, and every process left a readable recording
    assert run.code == 0
    assert run.out.endswith("interrupted\n")
    assert len(run.workers) == workers
    assert run.main.process().loaders[0].batches > 0
    assert run.main.noted(Kind.ADAPTER_FAILED) == []


def test_an_uncaught_ctrl_c_ends_the_program_as_ever_and_is_written_down(
    recorded: Callable[..., Run], tmp_path: Path
) -> None:
    interrupt = interrupt_when_it_prints(tmp_path / "recordings" / "out")
    run = recorded(INTERRUPTED.format(workers=0, then="raise"), during=interrupt)
    assert run.code == -signal.SIGINT
    assert run.err.endswith("KeyboardInterrupt\n")
    assert frames_of_ours(run.err) == []
    failure = run.main.process().failure
    assert failure is not None
    assert failure.type == "KeyboardInterrupt"
