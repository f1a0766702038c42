"""What accelerate makes of loaders, and where its ranks wait for each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import BEGIN, Run, Zygote

from unstuck.evidence.process import Process

pytestmark = pytest.mark.scenario  # accelerate is imported, which takes its time

Recorded = Callable[..., Run]

RANKS = """
import os, socket, time, warnings
warnings.simplefilter("ignore")
import torch
from torch.utils.data import DataLoader, IterableDataset
from accelerate import Accelerator, DataLoaderConfiguration

class Buckets:
    def __init__(self):
        self.batches = [[start, start + 1] for start in range(0, 10, 2)]
    def __len__(self):
        return len(self.batches)
    def __iter__(self):
        return iter(self.batches)

class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(12.0))

def rank_(rank, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1")
    os.environ.update(MASTER_PORT=str(port))
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(even_batches=False))
    data = torch.arange(10.0)
    buckets, none, stream = accelerator.prepare(
        DataLoader(data, batch_sampler=Buckets(), num_workers=1),
        DataLoader(data, batch_size=None),
        DataLoader(Stream(), batch_size=2, num_workers=1),
    )
    list(buckets)
    for batch in stream:
        accelerator.gather_for_metrics(batch)
    with accelerator.main_process_first():
        time.sleep(0.05 if rank == 0 else 0)

with socket.create_server(("127.0.0.1", 0)) as listener:
    port = listener.getsockname()[1]
torch.multiprocessing.start_processes(rank_, (port,), nprocs=2, start_method="fork")
"""


@pytest.fixture(scope="module")
def ranks(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> list[Process]:
    run = zygote.run(RANKS, tmp_path_factory.mktemp("ranks"))
    assert run.code == 0, run.err
    found = sorted(
        (one for one in run.processes if one.role == "main" and one.rank is not None), key=lambda one: one.rank
    )
    assert [one.adapters_failed for one in found] == [[], []]
    return found


def test_a_loader_is_told_before_and_after_prepare_with_the_batch_sampler_inside_of_its_shard(
    ranks: list[Process],
) -> None:
    for rank, length in zip(ranks, (3, 2), strict=True):
        one = rank.prepared[0]
        assert (one.processes, one.index, one.device, one.even_batches) == (2, rank.rank, "cpu:0", False)
        assert (one.before.type, one.before.length) == ("torch.utils.data.dataloader.DataLoader", 5)
        assert (one.before.batch_sampler, one.before.batches, one.before.shards) == ("__main__.Buckets", 5, [])
        assert one.after is not None
        assert (one.after.type, one.after.length) == ("accelerate.data_loader.DataLoaderShard", length)
        assert (one.after.batch_sampler, one.after.batches, one.after.dataset_length) == ("__main__.Buckets", 5, 10)
        assert one.after.shards == ["accelerate.data_loader.BatchSamplerShard"]
        assert one.where is not None
        assert one.where.function == "rank_"


def test_a_shard_around_nothing_is_told_as_what_it_is(ranks: list[Process]) -> None:
    one = ranks[0].prepared[1]

    assert (one.before.batch_sampler, one.before.batch_size, one.before.length) == (None, None, 10)
    assert one.after is not None
    assert (one.after.batch_sampler, one.after.length) == (None, None)
    assert one.after.failed == "TypeError: object of type 'NoneType' has no len()"
    assert one.after.shards == ["accelerate.data_loader.BatchSamplerShard"]


def test_the_loader_that_came_out_of_it_is_known_by_its_number_and_its_passes(ranks: list[Process]) -> None:
    for rank, batches in zip(ranks, (3, 2), strict=True):
        (loader,) = [one for one in rank.loaders if one.number == rank.prepared[0].loader]
        assert (loader.passes, loader.batches, loader.length, loader.num_workers) == (1, batches, batches, 1)
        assert [one.batches for one in loader.ended] == [batches]


def test_of_a_dispatched_stream_only_the_first_rank_takes_batches(ranks: list[Process]) -> None:
    prepared = [one.prepared[2] for one in ranks]
    loaders = [loader for one in ranks for loader in one.loaders if loader.number == one.prepared[2].loader]

    assert [one.after.type for one in prepared if one.after] == ["accelerate.data_loader.DataLoaderDispatcher"] * 2
    assert [one.before.iterable for one in prepared] == [True, True]
    assert [(one.batches, [each.batches for each in one.ended]) for one in loaders] == [(6, [6]), (0, [])]


def test_the_whole_block_of_main_process_first_is_one_span_with_the_users_line(ranks: list[Process]) -> None:
    for rank in ranks:
        names = [one.name for one in rank.spans]
        assert names.count("gather_for_metrics") == 3
        assert names[-3:] == ["main_process_first", "wait_for_everyone", "barrier"]
        assert all(one.ended is not None and not one.failed and one.where is not None for one in rank.spans)
    (block,) = [one for one in ranks[0].spans if one.name == "main_process_first"]
    assert (block.ended or 0.0) - block.at >= 0.04


def test_a_pass_over_a_prepared_loader_ends_after_the_last_body_and_has_all_its_steps(recorded: Recorded) -> None:
    # given a loader that is handed on one batch behind
    run = recorded("""
        import time
        import torch
        from torch.utils.data import DataLoader
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        loader = accelerator.prepare(DataLoader(torch.arange(4.0), batch_size=2, num_workers=1))
        for turn in range(2):
            for batch in loader:
                weight.grad = torch.ones(1)
                optimizer.step()
                time.sleep(0.1)
                through = time.time()
            print(through)
        for batch in loader:
            break
    """).succeeded()
    loader = run.main.process().loaders[1]
    # then its end is when the loop was through, not when the last batch was fetched, a body of 100 ms before
    assert [one.batches for one in loader.ended] == [2, 2]
    assert all(one.at >= float(told) - 0.05 for one, told in zip(loader.ended, run.out.split(), strict=True))
    assert loader.optimizer_steps == 4
    assert loader.bodies.total >= 0.4
    # and one that is left has none
    assert loader.passes == 3


def test_no_code_of_the_users_is_run_for_a_length_but_such_as_only_counts(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
import math, random
from accelerate import Accelerator

class Sampler:
    def __init__(self):
        self.batches, self.size = [[0, 1], [2, 3], [4]], 2

class Counts(Sampler):
    def __len__(self):
        return len(self.batches)

class Sums(Sampler):
    def __len__(self):
        return sum(math.ceil(len(batch) / self.size) for batch in self.batches)

class Draws(Sampler):
    def __len__(self):
        print("drawn")
        return len(random.sample(self.batches, 2))

class Calls(Sampler):
    def build(self):
        print("called")
        return self.batches
    def __len__(self):
        return len(self.build())

class Property(Sampler):
    @property
    def size(self):
        print("asked")
        return 2
    @size.setter
    def size(self, value):
        pass
    def __len__(self):
        return len(self.batches) // self.size

class Raises(Sampler):
    def __len__(self):
        return len(self.batches) // (self.size - 2)

class Nothing(Sampler):
    pass

def make(count):
    class Closure(Sampler):
        def __len__(self):
            return count()
    return Closure

def count():
    print("counted")
    return 1

accelerator = Accelerator(cpu=True)
for kind in (Counts, Sums, Draws, Calls, Property, Raises, Nothing, make(count)):
    accelerator.prepare(DataLoader(Numbers(), batch_sampler=kind()))
"""
    ).succeeded()

    assert run.out == ""
    prepared = run.main.process().prepared
    assert [one.before.batches for one in prepared] == [3, 3, None, None, None, None, None, None]
    assert prepared[5].before.failed.startswith("ZeroDivisionError")
    assert run.main.process().adapters_failed == []


def test_an_alarm_that_strikes_while_a_length_is_asked_for_is_not_lost(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
import signal
from accelerate import Accelerator

class Sampler:
    def __init__(self):
        self.batches = [[0]] * 300_000
    def __len__(self):
        return sum(len(batch) for batch in self.batches for _ in range(20))

class Late(Exception):
    pass

def late(number, frame):
    raise Late

signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    Accelerator(cpu=True).prepare(DataLoader(Numbers(), batch_sampler=Sampler()))
    while True:
        pass
except Late:
    print("late")
"""
    ).succeeded()
    assert run.out == "late\n"


def test_what_prepare_refuses_is_told_as_far_as_it_came(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
from accelerate.data_loader import prepare_data_loader
try:
    prepare_data_loader(DataLoader(Numbers(), batch_size=3), num_processes=2, process_index=1, split_batches=True)
except ValueError as error:
    import traceback
    print([frame.name for frame in traceback.extract_tb(error.__traceback__)])
"""
    ).succeeded()
    (one,) = run.main.process().prepared

    assert run.out == "['<module>', 'prepare_data_loader']\n"
    assert (one.after, one.loader, one.processes, one.index, one.split_batches) == (None, None, 2, 1, True)
    assert (one.before.length, one.before.batch_size) == (3, 3)


def test_names_and_signatures_are_as_without_us(recorded: Recorded) -> None:
    run = recorded("""
        import inspect
        import accelerate, accelerate.data_loader as module
        from accelerate.state import PartialState

        assert accelerate.accelerator.prepare_data_loader is module.prepare_data_loader
        assert "even_batches" in inspect.signature(module.prepare_data_loader).parameters
        assert PartialState.main_process_first.__qualname__ == "PartialState.main_process_first"
        assert list(inspect.signature(PartialState.main_process_first).parameters) == ["self"]
        assert list(inspect.signature(accelerate.Accelerator.gather_for_metrics).parameters)[1] == "input_data"
        print("as ever")
    """).succeeded()
    assert run.out == "as ever\n"
