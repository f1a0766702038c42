"""What is told of distributed samplers at the beginning of each pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import BEGIN, Run

from unstuck.evidence.distributed import Sampling

Recorded = Callable[..., Run]
SAMPLER = "from torch.utils.data import BatchSampler, DistributedSampler\n"
OF_FOUR = "num_replicas=4, rank=1"


def told(run: Run) -> list[Sampling]:
    (loader,) = run.succeeded().main.process().loaders
    return loader.sampling


def test_a_distributed_sampler_tells_its_epoch_and_share_pass_by_pass(recorded: Recorded) -> None:
    program = f"""
    sampler = DistributedSampler(Numbers(13), {OF_FOUR}, seed=7)
    loader = DataLoader(sampler.dataset, batch_size=2, sampler=sampler)
    for epoch in range(3):
        sampler.set_epoch(epoch * 2)
        for batch in loader: pass
    """
    found = told(recorded(BEGIN + SAMPLER + _left(program)))

    assert [(one.number, one.epoch) for one in found] == [(1, 0), (2, 2), (3, 4)]
    assert {(one.replicas, one.rank, one.seed, one.samples, one.dataset_length) for one in found} == {(4, 1, 7, 4, 13)}
    assert {(one.shuffle, one.drop_last, one.standard, one.dataset) for one in found} == {(True, False, True, 1)}
    assert found[0].kind == "torch.utils.data.distributed.DistributedSampler"


def test_only_the_first_sixteen_passes_are_told(recorded: Recorded) -> None:
    program = f"""
    loader = DataLoader(Numbers(8), sampler=DistributedSampler(Numbers(8), {OF_FOUR}, shuffle=False))
    for epoch in range(20):
        for batch in loader: pass
    """
    found = told(recorded(BEGIN + SAMPLER + _left(program)))

    assert [one.number for one in found] == list(range(1, 17))
    assert not any(one.shuffle for one in found)


def test_a_sampler_inside_a_batch_sampler_is_found(recorded: Recorded) -> None:
    program = f"""
    batches = BatchSampler(DistributedSampler(Numbers(8), {OF_FOUR}), batch_size=2, drop_last=False)
    for batch in DataLoader(Numbers(8), batch_sampler=batches): pass
    """
    (found,) = told(recorded(BEGIN + SAMPLER + _left(program)))

    assert (found.replicas, found.samples, found.standard) == (4, 2, True)


def test_another_dataset_is_another_order(recorded: Recorded) -> None:
    program = f"""
    for part in range(2):
        sampler = DistributedSampler(Numbers(8), {OF_FOUR})
        for batch in DataLoader(sampler.dataset, sampler=sampler): pass
    """
    found = told(recorded(BEGIN + SAMPLER + _left(program)))

    assert len({one.dataset for one in found}) == len(found) == 2


def test_a_plain_list_is_a_dataset_too(recorded: Recorded) -> None:
    program = f"for batch in DataLoader([1, 2, 3], sampler=DistributedSampler([1, 2, 3], {OF_FOUR})): pass"
    (found,) = told(recorded(BEGIN + SAMPLER + program))

    assert (found.dataset_length, found.dataset) == (3, 0)


@pytest.mark.parametrize(
    ("body", "standard"),
    [("pass", True), ("def __iter__(self): return iter([self.epoch])", False)],
)
def test_a_sampler_of_the_users_is_trusted_only_if_its_order_is_torchs(
    recorded: Recorded, body: str, standard: bool
) -> None:
    program = f"""
    class Own(DistributedSampler):
        {body}
    for batch in DataLoader(Numbers(8), sampler=Own(Numbers(8), {OF_FOUR})): pass
    """
    (found,) = told(recorded(BEGIN + SAMPLER + _left(program)))

    assert found.standard is standard
    assert (found.dataset_length is None) is not standard


def test_what_a_batch_sampler_of_the_users_makes_of_the_order_is_not_known(recorded: Recorded) -> None:
    program = f"""
    class Buckets(BatchSampler):
        def __iter__(self): return reversed(list(super().__iter__()))
    batches = Buckets(DistributedSampler(Numbers(8), {OF_FOUR}), batch_size=2, drop_last=False)
    for batch in DataLoader(Numbers(8), batch_sampler=batches): pass
    """
    (found,) = told(recorded(BEGIN + SAMPLER + _left(program)))

    assert (found.replicas, found.standard) == (4, False)


def test_other_samplers_are_left_alone(recorded: Recorded) -> None:
    program = """
    class Own:
        rank = epoch = 0
        @property
        def num_replicas(self): raise SystemExit("it was asked")
        def __iter__(self): return iter(range(4))
        def __len__(self): return 4
    for batch in DataLoader(Numbers(8), sampler=Own()): pass
    """

    assert told(recorded(BEGIN + _left(program))) == []


def _left(program: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in program.splitlines()) + "\n"
