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
