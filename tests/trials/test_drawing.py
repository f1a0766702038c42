"""A loader that is measured draws as the user's own does, without an end; and what is timed says how sure it is."""

from __future__ import annotations

import pickle
import random
from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from unstuck.trials.child.loaders import rebuilt
from unstuck.trials.child.stand_ins import Endless, Repeating, endless, samples_of
from unstuck.trials.child.timing import Timed, noise

pytestmark = pytest.mark.scenario  # for want of time: whoever runs it has to import torch


class Numbers(IterableDataset):
    def __init__(self, count):
        self.first, self.last = 0, count

    def __iter__(self):
        return iter(range(self.first, self.last))


class Once(Numbers):
    def __iter__(self):
        self.first, first = self.last, self.first
        return iter(range(first, self.last))


def test_whoever_asks_again_goes_on_with_data_that_was_not_read():
    drawn = Endless([[0, 1], [2]])

    assert list(islice(drawn, 3)) == [[0, 1], [2], [0, 1]]
    assert next(iter(drawn)) == [2]
    drawn.skip(1)
    assert next(iter(drawn)) == [2]


def test_a_sampler_that_draws_nothing_comes_to_an_end():
    assert list(Endless([])) == []


def test_a_stream_begins_again_and_is_still_the_users_dataset():
    stream = Repeating(Numbers(2))
    assert list(islice(stream, 5)) == [0, 1, 0, 1, 0]

    stream.last = 1  # as a worker_init_fn does

    assert stream.last == 1
    assert list(islice(pickle.loads(pickle.dumps(stream)), 3)) == [0, 0, 0]


@pytest.mark.parametrize("count", [0, 3])
def test_a_stream_that_can_be_read_once_comes_to_an_end(count):
    assert list(Repeating(Once(count))) == list(range(count))


def test_a_loader_without_an_end_has_its_own_batches():
    loader = DataLoader(range(5), batch_size=2)
    changes, drawn = endless(loader)

    batches = [one.tolist() for one in islice(rebuilt(loader, **changes), 4)]

    assert batches == [[0, 1], [2, 3], [4], [0, 1]]
    assert drawn.count == 4


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.zeros(16, 3), 16),
        ([torch.zeros(16, 3), torch.zeros(16)], 16),
        ((torch.zeros(3, 8, 8), 1), 1),
        ("text", 1),
    ],
)
def test_samples_of_a_batch_that_the_dataset_made_are_counted(batch, samples):
    assert samples_of(batch, DataLoader(Numbers(1), batch_size=None)) == samples


def test_noise_is_what_repetitions_differ_by():
    def rates(seed):
        told = random.Random(seed)
        stamps = [0.0]
        for _ in range(256):
            stamps.append(stamps[-1] + told.expovariate(100))
        return 256 / stamps[-1], noise(stamps, [1] * 256, 2)

    found = [rates(seed) for seed in range(40)]
    mean = sum(rate for rate, _ in found) / 40
    scatter = (sum((rate / mean - 1) ** 2 for rate, _ in found) / 40) ** 0.5
    assert sum(one for _, one in found) / 40 == pytest.approx(scatter, rel=0.4)


def test_a_loader_without_data_says_so():
    with pytest.raises(RuntimeError, match="yields no batch"):
        Timed(DataLoader([], batch_size=1), None, 0, None)


def test_batches_are_timed_and_counted():
    loader = DataLoader(range(100_000), batch_size=4)
    changes, drawn = endless(loader)

    timed = Timed(rebuilt(loader, **changes), drawn, 0, None)
    timed.warm_up(0.1)
    found = timed.run(0.1)

    assert found["samples"] == 4 * found["batches"]
    assert found["rate"] == pytest.approx(found["samples"] / found["seconds"])
    assert found["noise"] > 0
    assert found["starved"] is None
