"""A loader can be made of what a target gives, and made again with other settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    WeightedRandomSampler,
)

from unstuck.trials.child.loaders import as_loader, described, rebuilt
from unstuck.trials.child.request import Refused

pytestmark = pytest.mark.scenario  # for want of time: whoever runs it has to import torch


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(10))


def summed(batch: list[int]) -> int:
    return sum(batch)


def rows(loader: Any) -> list[Any]:
    return [one.tolist() if isinstance(one, torch.Tensor) else one for one in loader]


LOADERS = {
    "plain": lambda: DataLoader(Numbers(), batch_size=4),
    "the last left out": lambda: DataLoader(Numbers(), batch_size=4, drop_last=True),
    "no batches": lambda: DataLoader(Numbers(), batch_size=None),
    "a batch sampler": lambda: DataLoader(
        Numbers(), batch_sampler=BatchSampler(SequentialSampler(range(10)), 3, drop_last=False)
    ),
    "batches by hand": lambda: DataLoader(Numbers(), batch_sampler=[[1, 2], [3], [7, 8, 9]]),
    "a sampler": lambda: DataLoader(Numbers(), batch_size=2, sampler=[3, 1, 4, 1, 5]),
    "a collate function": lambda: DataLoader(Numbers(), batch_size=4, collate_fn=summed),
    "a stream": lambda: DataLoader(Stream(), batch_size=4),
    "a stream without batches": lambda: DataLoader(Stream(), batch_size=None),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("workers", [0, 1])
def test_the_same_loader_with_other_workers_gives_the_same(name: str, workers: int) -> None:
    loader = LOADERS[name]()

    assert rows(rebuilt(loader, num_workers=workers)) == rows(loader)


def test_what_needs_workers_goes_with_them() -> None:
    loader = DataLoader(
        Numbers(), num_workers=2, prefetch_factor=5, persistent_workers=True, timeout=7, multiprocessing_context="spawn"
    )

    none, some = rebuilt(loader, num_workers=0), rebuilt(loader, num_workers=3)

    assert (none.prefetch_factor, none.persistent_workers, none.timeout) == (None, False, 0)
    assert (some.num_workers, some.prefetch_factor, some.persistent_workers, some.timeout) == (3, 5, True, 7)
    assert some.multiprocessing_context.get_start_method() == "spawn"


def test_another_batch_size_keeps_the_sampler() -> None:
    loader = DataLoader(Numbers(), batch_size=2, sampler=WeightedRandomSampler([0.0] * 9 + [1.0], 6))

    assert rows(rebuilt(loader, batch_size=3)) == [[9, 9, 9], [9, 9, 9]]


class Data:
    """As a LightningDataModule behaves."""

    def prepare_data(self) -> None:
        self.prepared = True

    def setup(self, stage: str) -> None:
        assert self.prepared
        self.stage = stage

    def train_dataloader(self) -> Any:
        assert self.stage == "fit"
        return DataLoader(Numbers(), batch_size=5)


def test_datasets_modules_and_lists_of_samples_become_loaders() -> None:
    of_dataset, gave = as_loader(Numbers(), "a:b", {"num_workers": 0, "batch_size": 4})
    assert (rows(of_dataset), gave) == ([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], "Numbers")
    assert described(as_loader(Stream(), "a:b", {})[0])["num_workers"] == 2
    assert described(as_loader(Data(), "a:b", {})[0])["batch_size"] == 5
    assert rows(as_loader([5, 6], "a:b", {"num_workers": 0})[0]) == [[5, 6]]


OTHER = [
    (None, r"returns nothing \(None\)"),
    (3, "returns an object of type int"),
    ((DataLoader(Numbers()), DataLoader(Numbers())), r"returns a tuple of 2 \(DataLoader\)"),
    ([DataLoader(Numbers())], r"returns a list of 1 \(DataLoader\)"),
    ({"train": DataLoader(Numbers())}, r"returns a dict of 1 \(DataLoader\)"),
    ([], "returns an empty list"),
]


@pytest.mark.parametrize(("thing", "words"), OTHER)
def test_anything_else_is_refused_with_what_it_is(thing: object, words: str) -> None:
    with pytest.raises(Refused, match=words):
        as_loader(thing, "train.py:make", {})
