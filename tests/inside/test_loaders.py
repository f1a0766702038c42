"""What is recorded of DataLoaders in the ways that people use them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import BEGIN, Run

from unstuck.inside import format as f
from unstuck.inside.format import Kind

Recorded = Callable[..., Run]


def test_an_epoch_is_recorded_from_loader_to_last_batch(recorded: Recorded) -> None:
    # given an epoch of four batches with two workers and a step for each
    run = recorded(
        BEGIN
        + """
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.ones(1)
optimizer = torch.optim.SGD([weight], lr=0.1)
for batch in DataLoader(Numbers(8), batch_size=2, num_workers=2):
    optimizer.step()
"""
    ).succeeded()
    # then the loader, its waits, its steps and its workers' samples are all there
    process = run.main.process()
    (loader,) = process.loaders
    assert (loader.passes, loader.batches, loader.optimizer_steps) == (1, 4, 4)
    assert (loader.dataset, loader.batch_size, loader.num_workers) == ("__main__.Numbers", 2, 2)
    assert (loader.dataset_length, loader.length) == (8, 4)
    assert loader.first_waits.count + loader.waits.count == 4
    assert loader.bodies.count == 4
    assert process.optimizer_steps == 4
    workers = [one.process() for one in run.workers]
    assert sorted(one.pid for one in workers) == sorted(loader.pids)
    assert sorted(one.worker for one in workers if one.worker is not None) == [0, 1]
    assert [one.fetching[0].samples for one in workers] == [4, 4]
    indices = {record[f.R_A] for one in run.workers for record in one.events(Kind.SAMPLE)}
    assert indices == set(range(8))
    assert {one.ended_how for one in workers} == {"worker loop returned"}
    assert process.ended_how == "interpreter exit"


def test_persistent_workers_stay_the_same_over_all_passes(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
loader = DataLoader(Numbers(8), batch_size=2, num_workers=2, persistent_workers=True)
for epoch in range(3):
    for batch in loader:
        pass
"""
    ).succeeded()
    (loader,) = run.main.process().loaders
    assert (loader.passes, loader.batches) == (3, 12)
    assert len(loader.pids) == 2
    assert len(run.workers) == 2
    assert [one.process().fetching[0].samples for one in run.workers] == [12, 12]


def test_a_break_out_of_an_epoch_begins_a_new_pass(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
loader = DataLoader(Numbers(20), batch_size=2)
for epoch in range(3):
    for number, batch in enumerate(loader):
        if number == 3:
            break
"""
    ).succeeded()
    (loader,) = run.main.process().loaders
    assert (loader.passes, loader.batches) == (3, 12)
    assert run.main.events(Kind.PASS_END) == []


def test_a_validation_loader_inside_the_training_loop_keeps_its_own_account(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
train, validate = DataLoader(Numbers(6), batch_size=2), DataLoader(Numbers(10), batch_size=5, num_workers=1)
for batch in train:
    for held_out in validate:
        pass
"""
    ).succeeded()
    train, validate = run.main.process().loaders
    assert (train.passes, train.batches) == (1, 3)
    assert (validate.passes, validate.batches) == (3, 6)
    (fetching,) = run.main.process().fetching
    assert (fetching.loader, fetching.batches, fetching.samples) == (train.number, 3, 6)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_inside_a_dataset_does_not_mix_with_the_one_around_it(recorded: Recorded, workers: int) -> None:
    # given a dataset that reads through a loader of its own
    run = recorded(
        BEGIN
        + f"""
class Outer(Numbers):
    def __getitem__(self, index):
        return sum(batch.sum() for batch in DataLoader(Numbers(6), batch_size=3))

for batch in DataLoader(Outer(4), batch_size=2, num_workers={workers}):
    assert batch.tolist() == [15, 15]
"""
    ).succeeded()
    # then samples of the outer are counted with the outer, those of the inner with the inner
    fetching = (run.workers[0] if workers else run.main).process().fetching
    counts = {one.loader: (one.batches, one.samples) for one in fetching}
    outer = 0 if workers else run.main.process().loaders[0].number
    assert counts.pop(outer) == (2, 4)
    assert sum(samples for _, samples in counts.values()) == 24
    # and the time between two inner ones is not taken for idleness
    assert {one.loader: one.idle.count for one in fetching if one.idle.count} == ({0: 1} if workers else {})


def test_two_loaders_at_once_are_told_apart(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
for one, other in zip(DataLoader(Numbers(8), batch_size=2, num_workers=1), DataLoader(Numbers(12), batch_size=3)):
    pass
"""
    ).succeeded()
    counts = [(one.batches, one.num_workers) for one in run.main.process().loaders]
    assert counts == [(4, 1), (4, 0)]
    assert len({one.number for one in run.main.process().loaders}) == 2


def test_a_fork_in_mid_epoch_leaves_the_parents_recording_alone(recorded: Recorded) -> None:
    # given a fork after the second batch; both go on, the child to its end before the parent's next batch
    run = recorded(
        BEGIN
        + """
with_child = DataLoader(Numbers(12), batch_size=2)
for number, batch in enumerate(with_child):
    if number == 1:
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            print(child)
        else:
            unstuck.progress("in the child", 1)
"""
    ).succeeded()
    # then the parent's has six waits, the child's its own four
    child = int(run.out)
    parent, forked = run.role(f.ROLE_MAIN)
    assert forked.recording.header[f.H_PID] == child
    assert [one[f.R_A] for one in parent.events(Kind.WAIT)] == [0, 1, 2, 3, 4, 5]
    assert [one[f.R_A] for one in forked.events(Kind.WAIT)] == [2, 3, 4, 5]
    assert parent.process().progress == []
    assert forked.process().loaders[0].dataset == "__main__.Numbers"


def test_a_fork_inside_a_sample_that_returns_in_the_child_too_keeps_both_recorded(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
class Forking(Numbers):
    def __getitem__(self, index):
        if index == 2 and os.fork():
            os.wait()
        return index

for batch in DataLoader(Forking(8), batch_size=2):
    pass
"""
    ).succeeded()
    parent, child = run.role(f.ROLE_MAIN)
    assert parent.process().loaders[0].batches == 4
    assert child.process().loaders[0].batches >= 3  # the one in flight was begun in the parent
    assert [one[f.R_A] for one in child.events(Kind.WAIT)] == [1, 2, 3]  # it came out of the fork with batch 1
    (fetching,) = parent.process().fetching
    assert (fetching.fetches.count, fetching.sample_times.count, fetching.samples) == (4, 8, 8)
    assert parent.process().adapters_failed == child.process().adapters_failed == []
