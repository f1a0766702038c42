"""What the user's own methods are asked: as often as without us."""

from __future__ import annotations

from collections.abc import Callable

from running import Run

Started = Callable[..., Run]

# How a loader is made, and the length that is known of it in the end.
LOADERS = {
    "batch_size=4": 3,
    "batch_size=4, shuffle=True": 3,
    "batch_size=4, shuffle=True, drop_last=True": 2,
    "batch_size=None": 10,
    "batch_size=4, sampler=RandomSampler(dataset, num_samples=6)": 2,
    "batch_size=4, num_workers=2": 3,
    "batch_size=4, num_workers=2, shuffle=True": 3,
    "batch_size=4, num_workers=2, persistent_workers=True": 3,
    "batch_size=2, sampler=DistributedSampler(dataset, num_replicas=2, rank=0)": None,
}
BEGIN = """
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

class Counting:
    def __init__(self):
        self.asked = 0
    def __len__(self):
        self.asked += 1
        return 10
    def __getitem__(self, index):
        return index

def asked(dataset, loader):
    for epoch in range(2):
        batches = [batch for batch in loader]
    print(len(batches), dataset.asked)
"""
EACH = """
dataset = Counting()
asked(dataset, DataLoader(dataset, {arguments}))
"""
PROGRAM = BEGIN + "".join(EACH.format(arguments=arguments) for arguments in LOADERS)


def test_the_length_of_a_dataset_is_asked_for_as_often_as_without_us(started: Started) -> None:
    # given datasets that count, without and with us
    plain = started(PROGRAM, recorded=False).succeeded()
    run = started(PROGRAM).succeeded()
    # then they were asked as often, and what the samplers were told is known all the same
    assert run.out == plain.out
    loaders = run.main.process().loaders
    assert [one.length for one in loaders] == list(LOADERS.values())
    assert [one.dataset_length for one in loaders[:-1]] == [10] * (len(LOADERS) - 1)
    assert [one.dataset_length for one in loaders[-1].sampling] == [10, 10]


def test_an_empty_dataset_has_a_length(started: Started) -> None:
    program = BEGIN.replace("return 10", "return 0") + EACH.format(arguments="batch_size=4")
    run = started(program).succeeded()
    (loader,) = run.main.process().loaders
    assert (loader.length, loader.dataset_length) == (0, 0)


def test_an_error_of_the_users_length_comes_as_without_us(started: Started) -> None:
    program = BEGIN.replace("return 10", "raise KeyError('no length')") + EACH.format(arguments="batch_size=4")
    plain, run = started(program, recorded=False), started(program)
    assert plain.err.endswith("KeyError: 'no length'\n")
    assert (run.code, run.err) == (plain.code, plain.err)


ACCELERATE = """
import accelerate
accelerator = accelerate.Accelerator(cpu=True)
dataset = Counting()
asked(dataset, accelerator.prepare(DataLoader(dataset, batch_size=4)))
"""


def test_accelerates_prepare_asks_a_length_that_counts_its_calls_no_more_often(started: Started) -> None:
    plain, run = started(BEGIN + ACCELERATE, recorded=False).succeeded(), started(BEGIN + ACCELERATE).succeeded()
    assert run.out == plain.out
