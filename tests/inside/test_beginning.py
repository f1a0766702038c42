"""How a process began, as its recording tells it: imports, model, first samples and batches, sampler and buffer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import BEGIN, Run

pytestmark = pytest.mark.scenario

Recorded = Callable[..., Run]


def test_the_model_is_known_by_its_parameters_and_only_until_the_first_step(recorded: Recorded) -> None:
    # given plain, lazy and meta parameters, and a module that is made after the first step
    run = recorded(
        BEGIN
        + """
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LazyLinear(2))
with torch.device("meta"):
    torch.nn.Linear(10, 10, bias=False)
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
model[0](torch.ones(1, 3)).sum().backward()
optimizer.step()
torch.nn.Linear(1000, 1000)
"""
    ).succeeded()
    process = run.main.process()
    # then tensors are counted, and their numbers as far as they have a shape
    assert process.model is not None
    assert (process.model.parameters, process.model.elements) == (
        6,
        3 * 4 + 4 + 100,
    )  # a lazy weight is an empty one first
    assert process.model.at <= process.model.ended <= (process.first_step or 0)
    assert process.device == "cpu"
    assert process.started is not None
    assert process.started <= process.opened


@pytest.mark.parametrize("workers", [0, 2])
def test_the_first_batches_are_told_one_by_one(recorded: Recorded, workers: int) -> None:
    run = recorded(
        BEGIN
        + f"""
import time
class Slow(Numbers):
    def __getitem__(self, index):
        time.sleep(0.2 if index < 4 else 0)
        return {{"x": torch.ones(3), "y": index}}
loader = DataLoader(Slow(40), batch_size=2, num_workers={workers})
for epoch in range(2):
    for batch in loader:
        pass
"""
    ).succeeded()
    loader = run.main.process().loaders[0]
    # then the first is slow, the next are not, and there are no more than four
    assert len(loader.first) == 4
    assert loader.first[0] >= 0.35 > loader.first[3]
    assert loader.first_shapes == "{x: float32[2, 3], y: int64[2]}"
    assert loader.first_device == "cpu"
    made, began, came = loader.made, loader.began, loader.first_at
    assert made is not None
    assert began is not None
    assert came is not None
    assert made <= began <= came
    # and the first sample was there before its batch was
    samples = [one.first_sample for one in run.processes if one.first_sample is not None]
    assert len(samples) == (2 * workers or 1)  # the second pass has new workers
    assert began + 0.15 <= min(samples) <= came


def test_the_time_in_the_sampler_is_known_for_all_batches_with_workers_and_without(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
import time
class Measuring(torch.utils.data.Sampler):
    def __init__(self, data):
        self.data = data
    def __iter__(self):
        time.sleep(0.3)
        return iter(range(8))
data = Numbers(8)
for workers in (0, 2):
    for epoch in range(2):
        for batch in DataLoader(data, sampler=Measuring(data), batch_size=2, num_workers=workers):
            pass
for batch in DataLoader(data, batch_size=2):
    pass
"""
    ).succeeded()
    loaders = run.main.process().loaders
    # then what the sampler does before its first index counts, in every pass
    assert min(one.drawing.longest for one in loaders[:2]) >= 0.3 > loaders[2].drawing.longest
    assert [one.drawing.count for one in loaders] == [8, 8, 4]
    assert min(one.drawing.total for one in loaders[:2]) >= 0.6
    # and a sampler of the user's own that has the dataset is told from torch's
    assert [one.sampler_holds for one in loaders] == [True, True, False]


HELD = """
import random
class Plain(IterableDataset):
    def __init__(self, room):
        self.room = room
        self.files = [f"/data/{number}.tar" for number in range(500)]
    def __iter__(self):
        waiting, names = [], list(self.files)
        for number in range(400):
            waiting.append({"number": number})
            if len(waiting) >= self.room:
                yield waiting.pop(random.randrange(len(waiting)))["number"]

def look(stream, workers):
    for batch in DataLoader(stream, batch_size=4, num_workers=workers):
        pass
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_that_a_generator_holds_back_are_counted_and_paths_are_not(recorded: Recorded, workers: int) -> None:
    run = recorded(BEGIN + HELD + f"look(Plain(100), {workers}); look(Plain(20), {workers})").succeeded()
    held = [one for process in run.processes for fetching in process.fetching for one in fetching.held_back]
    # then only the large buffer is told, after its first batch
    assert [(one.name, one.held, one.of, one.shuffles) for one in held] == [("waiting", 99, "Plain", True)]


def test_the_buffer_of_torchs_own_shuffler_is_known_with_its_size(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + HELD
        + """
import warnings
warnings.simplefilter("ignore")
from torch.utils.data.datapipes.iter import IterableWrapper
look(IterableWrapper([{"x": number} for number in range(300)]).shuffle(buffer_size=120).map(len), 1)
"""
    ).succeeded()
    held = [one for process in run.processes for fetching in process.fetching for one in fetching.held_back]
    assert [(one.held >= 100, one.size, one.shuffles) for one in held] == [(True, 120, True)]


def test_a_late_watch_does_not_make_up_when_torch_was_imported(recorded: Recorded) -> None:
    run = recorded(BEGIN + "list(DataLoader(Numbers(4)))").succeeded()
    # given a process that had torch before it was recorded; then nobody knows when
    assert run.main.process().imported is None
