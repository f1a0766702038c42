"""Loaders out of the ordinary: samplers without a length, odd indices, streams, whole batches, state."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from running import BEGIN, Run

from unstuck.inside import format as f
from unstuck.inside.format import Kind

Recorded = Callable[..., Run]


def test_a_batch_sampler_without_a_length_is_no_reason_to_give_up(recorded: Recorded) -> None:
    # given what torch does not need a length for
    run = recorded(
        BEGIN
        + """
class NoLength:
    def __getitem__(self, index):
        return index

class Buckets:
    def __iter__(self):
        return iter([[0, 1], [2, 3, 4]])

for epoch in range(2):
    for batch in DataLoader(NoLength(), batch_sampler=Buckets()):
        pass
"""
    ).succeeded()
    process = run.main.process()
    assert process.adapters_failed == []
    assert [(one.batches, one.dataset_length) for one in process.loaders] == [(4, None)]


def test_indices_of_any_kind_are_taken_as_they_are(recorded: Recorded) -> None:
    # given names, pairs and numbers too large for a word as indices
    run = recorded(
        BEGIN
        + """
class Anything:
    def __getitem__(self, index):
        return str(index)

wanted = [["a.jpg", "b.jpg"], [(1, 2), (3, 4)], [2**64, -2**70], [5, 6]]
seen = [batch for batch in DataLoader(Anything(), batch_sampler=wanted)]
assert seen == [[str(one) for one in batch] for batch in wanted], seen
"""
    ).succeeded()
    assert run.main.process().adapters_failed == []
    assert run.main.process().fetching[0].samples == 8
    assert [one[f.R_A] for one in run.main.events(Kind.SAMPLE)] == [f.MASK] * 6 + [5, 6]


def test_a_dataset_that_takes_whole_batches_is_handed_a_plain_list(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
class Whole(Numbers):
    def __getitems__(self, indices):
        assert type(indices) is list, type(indices)
        return indices

for batch in DataLoader(Whole(8), batch_size=4):
    pass
"""
    ).succeeded()
    (fetching,) = run.main.process().fetching
    assert (fetching.batches, fetching.fetches.count, fetching.samples) == (2, 2, 8)


def test_an_iterable_that_ends_in_mid_batch_is_counted_to_its_last_sample(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(7))

assert [len(batch) for batch in DataLoader(Stream(), batch_size=3, num_workers=1)] == [3, 3, 1]
"""
    ).succeeded()
    (fetching,) = run.workers[0].process().fetching
    assert fetching.batches == 3
    assert fetching.samples == 7


STATEFUL = (
    BEGIN
    + """
import warnings
from torchdata.stateful_dataloader import StatefulDataLoader

warnings.simplefilter("ignore")  # torchdata calls what torch deprecates

def make():
    return StatefulDataLoader(Numbers(12), batch_size=2, num_workers={workers})

loader = make()
first = []
for batch in loader:
    first.append(batch.tolist())
    if len(first) == 3:
        state = loader.state_dict()
        break
again = make()
again.load_state_dict(state)
print(json.dumps(first + [batch.tolist() for batch in again]))
"""
)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_is_recorded_and_resumes_where_it_stood(recorded: Recorded, workers: int) -> None:
    run = recorded(STATEFUL.format(workers=workers)).succeeded()
    assert json.loads(run.out) == [[one, one + 1] for one in range(0, 12, 2)]
    process = run.main.process()
    assert process.adapters_failed == []
    assert sum(one.batches for one in process.loaders) >= 6
    assert {one.type.rpartition(".")[2] for one in process.loaders} == {"StatefulDataLoader"}
    assert len(run.workers) == 2 * workers
    if workers:
        assert {one.process().worker for one in run.workers} == {0, 1}


def test_a_loader_that_is_made_anew_every_epoch_is_one_loader(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
for epoch in range(5):
    for batch in DataLoader(Numbers(4), batch_size=2):
        pass
"""
    ).succeeded()
    assert [(one.passes, one.batches) for one in run.main.process().loaders] == [(5, 10)]


def test_a_loader_made_anew_every_epoch_is_one_loader_whatever_its_dataset_counts(recorded: Recorded) -> None:
    run = recorded("""
        from torch.utils.data import DataLoader

        class Counted(list):
            def __init__(self, epoch):
                super().__init__(range(6))
                self.epoch = epoch

        for epoch in range(300):
            for batch in DataLoader(Counted(epoch), batch_size=3):
                pass
    """)
    (loader,) = run.succeeded().main.process().loaders
    assert (loader.passes, loader.batches) == (300, 600)


def test_loaders_that_one_line_makes_with_other_settings_are_told_apart(recorded: Recorded) -> None:
    # given a sweep over workers, and a second round of it
    run = recorded(
        BEGIN
        + """
for workers in (0, 1, 2, 0, 1, 2):
    for batch in DataLoader(Numbers(8), batch_size=4, num_workers=workers):
        pass
"""
    ).succeeded()
    # then each setting is a loader of its own, with the workers that it had, and the second round adds to the first
    loaders = run.main.process().loaders
    assert [(one.num_workers, one.passes, one.batches) for one in loaders] == [(0, 2, 4), (1, 2, 4), (2, 2, 4)]
    assert [len(one.pids) for one in loaders] == [0, 2, 4]


def test_a_function_that_makes_the_loaders_of_training_and_validation_makes_two(recorded: Recorded) -> None:
    # given one that is made again for every epoch, with and without workers
    run = recorded(
        BEGIN
        + """
def make_loader(length, workers, shuffle):
    return DataLoader(Numbers(length), batch_size=2, num_workers=workers, shuffle=shuffle)

for epoch in range(3):
    for batch in make_loader(8, 2, True):
        pass
    for batch in make_loader(4, 0, False):
        pass
"""
    ).succeeded()
    train, validate = run.main.process().loaders
    assert (train.num_workers, train.shuffle, train.passes, train.batches) == (2, True, 3, 12)
    assert (validate.num_workers, validate.shuffle, validate.passes, validate.batches) == (0, False, 3, 6)


def test_settings_that_are_changed_later_make_another_loader_of_it(recorded: Recorded) -> None:
    # given what torch allows
    run = recorded(
        BEGIN
        + """
loader = DataLoader(Numbers(8), batch_size=2)
for workers in (0, 2):
    loader.num_workers, loader.prefetch_factor = workers, 2 if workers else None
    for batch in loader:
        pass
"""
    ).succeeded()
    alone, helped = run.main.process().loaders
    assert (alone.num_workers, alone.passes, alone.pids) == (0, 1, [])
    assert (helped.num_workers, helped.passes, len(helped.pids)) == (2, 1, 2)
    assert alone.created == helped.created


def test_a_sweep_without_an_end_keeps_a_bounded_number_of_loaders(recorded: Recorded) -> None:
    # given a hundred batch sizes, as a search for hyperparameters tries them
    run = recorded(
        BEGIN
        + """
for trial in range(100):
    for batch in DataLoader(Numbers(2 * trial + 2), batch_size=trial + 1, num_workers=trial % 2 * (trial > 96)):
        pass
"""
    ).succeeded()
    # then the first that went stand for those that find no room, with the settings and workers of the newest
    loaders = run.main.process().loaders
    assert len(loaders) == 16
    assert sum(one.passes for one in loaders) == 100
    assert sum(one.batches for one in loaders) == 200
    assert sorted(one.batch_size or 0 for one in loaders) == list(range(85, 101))
    assert {one.dataset_length for one in loaders} == {2 * size for size in range(85, 101)}
    with_workers = {one.batch_size: len(one.pids) for one in loaders if one.num_workers}
    assert with_workers == {98: 1, 100: 1}


def test_a_hundred_loaders_that_live_at_the_same_time_are_all_known(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
loaders = [DataLoader(Numbers(4), batch_size=2) for _ in range(100)]
for loader in loaders:
    for batch in loader:
        pass
"""
    ).succeeded()
    loaders = run.main.process().loaders
    assert [(one.passes, one.batches, one.length) for one in loaders] == [(1, 2, 2)] * 100


def test_a_dataset_that_holds_an_infinite_number_can_be_read_back(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
dataset = Numbers(4)
dataset.best, dataset.worst, dataset.mean = float("inf"), -float("inf"), float("nan")
for batch in DataLoader(dataset, batch_size=2):
    pass
"""
    ).succeeded()
    (loader,) = run.main.process().loaders
    assert [loader.attributes[name] for name in ("best", "worst", "mean")] == ["Infinity", "-Infinity", "NaN"]


def test_a_number_of_workers_that_is_numpys_is_a_number(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
import numpy
for batch in DataLoader(Numbers(4), batch_size=2, num_workers=numpy.int64(2), prefetch_factor=numpy.int64(3)):
    pass
"""
    ).succeeded()
    (loader,) = run.main.process().loaders
    assert (loader.num_workers, loader.prefetch_factor, len(loader.pids)) == (2, 3, 2)
