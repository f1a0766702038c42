"""What is told of the data itself: batches, datasets at the beginning of a pass, what was dropped, what was used up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import BEGIN, Run

from unstuck.evidence.loader import Fetching, Loader
from unstuck.evidence.process import Failure

Recorded = Callable[..., Run]
STREAM = """
class Stream(IterableDataset):
    def __init__(self, length, sharded=False):
        self.length, self.sharded = length, sharded
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if self.sharded and info else (0, 1)
        return iter(range(first, self.length, step))
"""


def fetching(run: Run) -> list[Fetching]:
    return [one for worker in run.workers for one in worker.process().fetching]


def only_loader(run: Run) -> Loader:
    (loader,) = run.main.process().loaders
    return loader


def failure(run: Run) -> Failure:
    """The first that was raised."""
    return min((one for process in run.processes for one in process.failures), key=lambda one: one.at)


def test_a_worker_tells_how_many_tensors_it_hands_over_and_what_they_are_views_of(recorded: Recorded) -> None:
    program = """
    whole = torch.zeros(1000, 1000)
    class Views(Numbers):
        def __getitem__(self, index):
            return [whole[index], torch.ones(3)]
    for batch in DataLoader(Views(), batch_size=None, num_workers=1): pass
    """
    handed = fetching(recorded(BEGIN + _left(program)).succeeded())[0].handed

    assert [one.batch for one in handed] == [0, 1, 3, 7]
    assert {(one.tensors, one.size, one.storage) for one in handed} == {(2, 4000 + 12, 4_000_000 + 12)}


@pytest.mark.parametrize("sharded", [False, True])
def test_the_content_of_the_first_batches_is_told_so_that_workers_can_be_compared(
    recorded: Recorded, sharded: bool
) -> None:
    program = f"for batch in DataLoader(Stream(40, {sharded}), batch_size=4, num_workers=2): pass"
    first, second = (one.digests[0] for one in fetching(recorded(BEGIN + STREAM + program).succeeded()))

    assert len(set(first)) == len(first) == (5 if sharded else 8)
    assert (first == second) is not sharded


def test_samples_of_an_incomplete_batch_are_counted_when_they_are_dropped(recorded: Recorded) -> None:
    program = "for _ in range(2):\n    for batch in DataLoader(Stream(10), 4, num_workers=2, drop_last=True): pass"
    run = recorded(BEGIN + STREAM + program).succeeded()

    assert [one.dropped for one in fetching(run)] == [2, 2, 2, 2]
    assert only_loader(run).ended[-1].batches == 4


def test_workers_tell_the_generators_of_their_copy_of_the_dataset_and_which_were_drawn_from(recorded: Recorded) -> None:
    program = """
    import numpy, random
    class Augmented(Numbers):
        def __init__(self):
            super().__init__()
            self.rng, self.spare = numpy.random.default_rng(0), random.Random(1)
        def __getitem__(self, index):
            return self.rng.random() + numpy.random.rand()
    for batch in DataLoader(Augmented(), batch_size=2, num_workers=2): pass
    """
    states = [one.states[0].generators for one in fetching(recorded(BEGIN + _left(program)).succeeded())]

    assert [set(one) for one in states] == [{"self.rng", "self.spare", "random", "numpy", "torch"}] * 2
    assert states[0]["self.rng"] == states[1]["self.rng"]
    assert states[0]["numpy"] != states[1]["numpy"]
    drawn = {name for name, (before, after) in states[0].items() if before != after}
    assert drawn == {"self.rng", "numpy"}


def test_the_numbers_of_a_dataset_are_told_by_each_copy_of_it(recorded: Recorded) -> None:
    program = """
    class Scheduled(Numbers):
        epoch = seen = 0
        def __getitem__(self, index):
            return self.weight() * index
        def weight(self):
            return self.epoch + 1
    dataset = Scheduled()
    loader = DataLoader(torch.utils.data.Subset(dataset, [0, 1]), num_workers=1, persistent_workers=True)
    for dataset.epoch in range(3):
        dataset.seen += 1
        for batch in loader: pass
    """
    run = recorded(BEGIN + _left(program)).succeeded()

    assert [one.numbers["dataset.epoch"] for one in only_loader(run).states] == [0, 1, 2]
    assert [one.numbers["dataset.epoch"] for one in fetching(run)[0].states] == [0, 0, 0]
    assert "dataset.seen" not in only_loader(run).states[0].numbers  # no sample depends on it


def test_passes_that_came_to_their_end_are_told_with_their_batches(recorded: Recorded) -> None:
    program = """
    loader = DataLoader(Numbers(), batch_size=3)
    for stop in (9, 1, 9):
        for number, batch in enumerate(loader):
            if number == stop: break
    """
    ended = only_loader(recorded(BEGIN + _left(program)).succeeded()).ended

    assert [(one.number, one.batches) for one in ended] == [(1, 3), (3, 3)]


def test_samples_that_do_not_fit_together_are_told_by_their_shapes(recorded: Recorded) -> None:
    program = """
    class Uneven(Numbers):
        def __getitem__(self, index):
            return {"x": torch.zeros(3, 4 + (index == 2)), "y": index}
    for batch in DataLoader(Uneven(), batch_size=4, num_workers=1): pass
    """
    told = failure(recorded(BEGIN + _left(program)))

    assert told.collating
    assert told.shapes == [f"{{x: float32[3, {4 + (index == 2)}], y: int}}" for index in range(4)]


def test_what_cannot_be_pickled_is_told_by_name(recorded: Recorded) -> None:
    program = """
    import threading
    class Locked(Numbers):
        def __init__(self):
            super().__init__()
            self.cache = {"guard": threading.Lock()}
    iter(DataLoader(Locked(), num_workers=1, multiprocessing_context="spawn"))
    """
    told = failure(recorded(BEGIN + _left(program)))

    assert told.unpicklable == ["dataset.cache['guard'] (_thread.lock)"]


def test_descriptors_that_ran_out_are_told_by_kind(recorded: Recorded) -> None:
    program = """
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    kept = []
    while True:
        kept.append(open(__file__))
    """
    told = failure(recorded(BEGIN + _left(program)))

    assert told.descriptor_limit == 100
    assert told.descriptors["file"] > 50
    assert told.open_files[0].endswith("train.py")


@pytest.mark.scenario
def test_graphs_that_outlive_their_step_are_counted_while_memory_grows(recorded: Recorded) -> None:
    program = """
    import time
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    total, kept = 0, []
    for step in range(140):
        loss = model(torch.ones(64)).sum()
        loss.backward()
        optimizer.step()
        total = total + loss
        kept.append(bytes([1]) * (2 << 20))
        time.sleep(0.02)
    """
    first, second = recorded(BEGIN + _left(program)).succeeded().main.process().graphs

    assert (first.step, second.step) == (64, 128)
    assert 1.7 < second.nodes / first.nodes < 2.3
    assert first.where is not None
    assert first.where.line == 20


def _left(program: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in program.splitlines()) + "\n"
