"""What a sample holds, what its making takes, and what a dataset object keeps: measured in this process."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from unstuck.trials.child.loaders import batch_size, sample_keys
from unstuck.trials.child.shuffles import opened
from unstuck.trials.child.sizes import PAGE, holdings_of, sizes_of
from unstuck.trials.child.usage import Meter

pytestmark = pytest.mark.scenario  # for want of time: whoever runs it has to import torch

MB = 1 << 20


class Numbers(Dataset):
    def __init__(self, length=100):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.zeros(4)


def test_a_slice_of_a_large_tensor_brings_all_of_it_along():
    found = sizes_of({"row": torch.zeros(1024, 1024)[0]})

    assert (found.size, found.storage, found.shm) == (4096, 4 * MB, 4 * MB)


def test_two_views_of_one_storage_are_counted_once():
    whole = torch.zeros(1024, 1024)

    assert sizes_of([whole[0], whole[1]]).storage == 4 * MB


def test_small_tensors_take_whole_pages_of_shared_memory_each():
    found = sizes_of([torch.zeros(2) for _ in range(100)])

    assert (found.tensors, found.shm, found.words()) == (100, 100 * PAGE, "100 × float32[2]")


def test_arrays_and_text_go_through_a_pipe_not_through_shared_memory():
    found = sizes_of({"image": np.zeros(MB, np.uint8), "text": "x" * 1000})

    assert found.shm == 0
    assert MB < found.pickled < MB + 4096


def test_the_peak_is_what_was_there_at_most_not_what_is_left():
    with Meter() as meter:
        np.ones(64 * MB, np.uint8)[:10].copy()

    assert meter.peak > 60 * MB
    assert meter.kept < 8 * MB


def test_python_objects_of_a_dataset_are_told_from_its_arrays():
    dataset = Numbers()
    dataset.names = [f"a file called {number:06d}" for number in range(50_000)]
    dataset.pixels = np.zeros(5 * MB, np.uint8)

    found = holdings_of(dataset)

    assert 0.8 < found.objects / (50_000 * (8 + 80)) < 1.3
    assert (round(found.arrays / MB), found.largest) == (5, "names")


def test_the_first_the_last_and_some_between_are_chosen_the_same_every_time():
    loader = DataLoader(Numbers(1000), batch_size=4)

    chosen = sample_keys(loader, 8)

    assert (chosen[0], chosen[-1], len(set(chosen))) == (0, 999, 8)
    assert chosen == sample_keys(loader, 8)


def test_a_sampler_of_ones_own_says_what_may_be_asked_for():
    class Buckets:
        def __iter__(self):
            yield from ([(1, "wide"), (2, "wide")], [(3, "tall")])

    loader = DataLoader(Numbers(), batch_sampler=Buckets())

    assert sample_keys(loader, 8) == [(1, "wide"), (2, "wide"), (3, "tall")]
    assert batch_size(loader) == 2


def test_a_shuffle_buffer_of_webdataset_is_measured_without_being_filled():
    import webdataset as wds

    raw = [{"__key__": str(number), "npy": bytes(10_000)} for number in range(50)]
    shuffled = wds.shuffle(100_000, initial=100_000)
    stream = wds.DataPipeline(lambda: iter(raw), shuffled, wds.map(lambda _: torch.zeros(1)))

    (buffer,) = opened(stream)
    next(iter(stream))

    assert (buffer.elements, buffer.looked) == (100_000, 1)
    assert 10_000 < buffer.element < 11_500


def test_a_shuffle_buffer_of_datasets_is_found_below_its_wrappers_and_shuffles_again_when_told():
    from datasets import Dataset as Table

    rows = [[float(number)] * 1000 for number in range(64)]
    stream = Table.from_dict({"x": rows}).to_iterable_dataset().shuffle(seed=0, buffer_size=10_000)

    (buffer,) = opened(stream)
    first = next(iter(stream))
    buffer.hold(64)

    assert (buffer.elements, buffer.looked > 0, first["x"][0]) == (10_000, True, 0.0)
    assert buffer.element > 4_000
    assert [one["x"][0] for one in stream] != [float(number) for number in range(64)]


def test_a_stream_without_buffers_has_none():
    class Lines(IterableDataset):
        def __iter__(self):
            yield "a"

    assert opened(Lines()) == []
