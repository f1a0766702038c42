"""What is known of streams, of rows behind a list of indices, and of loaders made of nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run
from tiny_streams import HUGGING_STREAM

from unstuck.inside.format import ROLE_WORKER

Recorded = Callable[..., Run]
pytestmark = pytest.mark.scenario  # importing datasets takes as long as a small training
READING = "rows through an indices mapping (datasets)"


def test_every_worker_tells_how_many_shards_it_has(recorded: Recorded) -> None:
    run = recorded(
        HUGGING_STREAM
        + """
stream = rows.to_iterable_dataset(num_shards=3).filter(lambda row: row["x"] % 2 == 0).with_format("torch")
print(sorted(x for batch in DataLoader(stream, batch_size=4, num_workers=4) for x in batch["x"].tolist()))
"""
    ).succeeded()
    # then the one that has none is told as well, and nothing is missing
    assert run.out.strip() == str(list(range(0, 40, 2)))
    told = [one.process() for one in run.role(ROLE_WORKER)]
    found = {one.worker: one.shards[0] for one in told}
    assert {worker: one.mine for worker, one in found.items()} == {0: 1, 1: 1, 2: 1, 3: 0}
    assert {worker: one.opened for worker, one in found.items()} == {0: 1, 1: 1, 2: 1, 3: 0}
    assert (found[0].total, found[0].workers, found[0].ranks) == (3, 4, 1)
    assert found[0].steps == ["to_iterable_dataset", "filter"]


def test_a_stream_that_was_split_by_node_says_so(recorded: Recorded) -> None:
    run = recorded(
        HUGGING_STREAM
        + """
from datasets.distributed import split_dataset_by_node
split = split_dataset_by_node(rows.to_iterable_dataset(num_shards=4), rank=1, world_size=2)
print(len(list(split)))
"""
    ).succeeded()
    assert run.out.strip() == "20"
    shards = run.main.process().shards[0]
    assert (shards.splitter, shards.total, shards.of_rank, shards.mine, shards.ranks) == (
        "split_dataset_by_node", 4, 2, 2, 2,
    )  # fmt: skip
    assert (shards.opened, shards.finished) == (2, 2)


def test_two_streams_that_take_turns_are_not_mixed_up(recorded: Recorded) -> None:
    run = recorded(
        HUGGING_STREAM
        + """
from datasets import IterableDataset
long, short = (rows.to_iterable_dataset(num_shards=count) for count in (5, 2))
first, second = iter(long), iter(short)
print(sum(1 for pair in zip(first, second)))
"""
    ).succeeded()
    assert run.out.strip() == "40"
    assert {one.total: one.finished for one in run.main.process().shards} == {5: 5, 2: 1}


def test_rows_behind_a_list_of_indices_are_timed_where_they_are_read(recorded: Recorded) -> None:
    run = recorded(
        HUGGING_STREAM
        + """
class Blocks:
    def __init__(self, rows):
        self.rows = rows.with_format("torch")
    def __len__(self):
        return 4
    def __getitem__(self, number):
        return self.rows[number * 10 : number * 10 + 10]["x"]

shuffled = rows.shuffle(seed=1)
print(sorted(x for block in DataLoader(Blocks(shuffled), batch_size=None) for x in block.tolist()) == list(range(40)))
print(len(shuffled[:20]["x"]), len(rows[:5]["x"]))
"""
    ).succeeded()
    assert run.out.split() == ["True", "20", "5"]
    process = run.main.process()
    assert process.stages[READING].count == 4
    calls = {(one.what, one.name): one for one in process.calls}
    assert calls["rows", READING].timing.count == 1
    made = calls["indices mapping", "shuffle"]
    assert made.where is not None
    assert made.where.file.endswith("train.py")


def test_rows_that_were_written_in_their_new_order_are_not_timed(recorded: Recorded) -> None:
    run = recorded(
        HUGGING_STREAM
        + """
flat = rows.shuffle(seed=1).flatten_indices()
for batch in DataLoader(flat.with_format("torch"), batch_size=4):
    pass
"""
    ).succeeded()
    assert READING not in run.main.process().stages


NODES = """
import torch
import torchdata.nodes as tn

def double(x):
    return 2 * x
"""


@pytest.mark.parametrize("method", ["thread", "process"])
def test_a_loader_of_nodes_is_a_loader_like_others(recorded: Recorded, method: str) -> None:
    run = recorded(
        NODES
        + f"""
mapper = tn.ParallelMapper(tn.IterableWrapper(range(40)), double, num_workers=2, method={method!r})
loader = tn.Loader(tn.Batcher(mapper, batch_size=4))
print(sum(sum(batch) for passes in range(2) for batch in loader))
"""
    ).succeeded()
    assert run.out.strip() == str(2 * 2 * sum(range(40)))
    (loader,) = run.main.process().loaders
    assert (loader.type, loader.batch_size, loader.num_workers) == ("torchdata.nodes.loader.Loader", 4, 2)
    assert (loader.passes, loader.batches, [one.batches for one in loader.ended]) == (2, 20, [10, 10])
    workers = [one.process() for one in run.role(ROLE_WORKER)]
    assert len(workers) == (4 if method == "process" else 0)
    assert {one.pid for one in workers} == set(loader.pids)


def test_what_a_resumed_loader_of_nodes_looks_ahead_is_no_batch(recorded: Recorded) -> None:
    run = recorded(
        NODES
        + """
def make():
    return tn.Loader(tn.Batcher(tn.IterableWrapper(range(40)), batch_size=4))
first = make()
for number, batch in enumerate(first):
    if number == 3:
        break
again = make()
again.load_state_dict(first.state_dict())
print(len(list(again)))
"""
    ).succeeded()
    assert run.out.strip() == "6"
    assert [one.batches for one in run.main.process().loaders] == [4, 6]
    assert len(run.main.process().loaders[1].resumed) == 1
