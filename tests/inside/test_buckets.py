"""Bucketed datasets by their shape, `unstuck.note`, batches that cannot be sent, and batches that are passed over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from running import Run, environment, write

from unstuck.inside.format import Kind

Recorded = Callable[..., Run]

SD_SCRIPTS = """
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset

class Manager:
    def __init__(self, sizes):
        self.resos = [(64 * n, 64) for n in range(1, len(sizes) + 1)]
        self.buckets = [[f"{n}.png" for n in range(count)] for count in sizes]

class Subset(Dataset):
    def __init__(self, *sizes):
        self.sizes, self.batch_size = sizes, 4
        self.make_buckets()
    def make_buckets(self):
        self.bucket_manager = Manager(self.sizes)
        self.buckets_indices = [(n, at) for n, one in enumerate(self.sizes) for at in range(0, one, 4)]
    def __len__(self):
        return len(self.buckets_indices)
    def __getitem__(self, index):
        return torch.zeros(1)
"""


def test_the_buckets_of_every_dataset_that_a_loader_reads_are_counted(recorded: Recorded) -> None:
    run = recorded(
        SD_SCRIPTS
        + """
for epoch in range(3):
    for batch in DataLoader(ConcatDataset([Subset(9, 3), Subset(4)]), batch_size=None):
        pass
"""
    ).succeeded()
    buckets = run.main.process().buckets

    set_up = [one for one in buckets if one.step]
    assert {one.step for one in set_up} == {"make_buckets"}
    read = [one for one in buckets if one.loader]
    assert [(one.files, one.batches, one.partial) for one in read] == [
        ({"64x64": 9, "128x64": 3}, 4, 2),
        ({"64x64": 4}, 1, 0),
    ]
    assert read[0].index == "buckets_indices"
    assert read[0].where is not None
    assert read[0].where.function == "make_buckets"


def test_a_bucketed_dataset_that_stays_the_same_is_told_once(recorded: Recorded) -> None:
    run = recorded(
        SD_SCRIPTS
        + """
loader = DataLoader(Subset(9, 3), batch_size=None)
for epoch in range(5):
    for batch in loader:
        pass
"""
    ).succeeded()
    assert len([one for one in run.main.process().buckets if one.loader]) == 1


def test_what_only_sounds_like_buckets_is_none(recorded: Recorded) -> None:
    run = recorded("""
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Rows(Dataset):
            def __init__(self):
                self.buckets, self.bucket_name, self.batches = True, "s3://data", [1, 2]
                self.histogram_buckets = [1.0, 2.0, 5.0]
                self.make_buckets()
            def make_buckets(self):
                pass
            def __len__(self):
                return 2
            def __getitem__(self, index):
                return torch.zeros(1)

        for batch in DataLoader(Rows()):
            pass
    """).succeeded()
    assert run.main.process().buckets == []
    assert run.main.process().adapters_failed == []


def test_an_exception_in_the_set_up_and_a_class_keyword_stay_the_users(recorded: Recorded) -> None:
    run = recorded("""
        from torch.utils.data import Dataset

        class Named(Dataset):
            def __init_subclass__(cls, tag="", **kwargs):
                super().__init_subclass__(**kwargs)
                cls.tag = tag
        class Broken(Named, tag="mine"):
            def setup_buckets(self, quiet=False):
                raise ValueError(f"no files, quiet={quiet}")
        try:
            Broken().setup_buckets(quiet=True)
        except ValueError as error:
            print(error, Broken.tag, Broken.setup_buckets.__name__)
        try:
            class Wrong(Dataset, nonsense=1):
                pass
        except TypeError:
            print("refused")
    """).succeeded()
    assert run.out == "no files, quiet=True mine setup_buckets\nrefused\n"


def test_notes_are_kept_as_plain_values_and_buckets_are_understood(recorded: Recorded) -> None:
    run = recorded("""
        import torch, unstuck

        class Odd:
            def __str__(self):
                raise KeyboardInterrupt

        unstuck.note("BUCKETS", files={(512, 768): list(range(9)), "odd": 3}, batch_size=4, batches=[0] * 4)
        unstuck.note("curriculum", stage=2, loss=float("nan"), more=Odd(), shape=(1, 2), weights=torch.zeros(3))
        for step in range(10_000):
            unstuck.note("every step", step=step)
    """).succeeded()
    process = run.main.process()

    told = process.buckets[0]
    assert (told.told, told.files, told.batches, told.batch_size) == (True, {"512x768": 9, "odd": 3}, 4, 4)
    note = next(one for one in process.notes if one.tag == "curriculum")
    assert note.facts == {"stage": 2, "loss": "nan", "more": "Odd", "shape": [1, 2], "weights": "Tensor"}
    assert len(run.main.noted(Kind.NOTE)) <= 256


def test_a_note_is_harmless_when_nothing_records(tmp_path: Path) -> None:
    script = write(
        tmp_path / "script.py", "import unstuck\nunstuck.note('BUCKETS', files={'a': 3}, batches=1)\nprint('fine')\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        env=environment(tmp_path) | {"UNSTUCK": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "fine\n"


def test_a_batch_that_cannot_be_sent_is_named_with_what_is_in_the_way(recorded: Recorded) -> None:
    run = recorded("""
        import collections, sys
        import torch
        from torch.utils.data import DataLoader

        def collate(rows):
            return {"rows": torch.stack(rows), "names": [collections.defaultdict(lambda: "none", a="b")]}

        sys.stderr = open("/dev/null", "w")
        loader = DataLoader(list(torch.zeros(8, 2)), batch_size=4, num_workers=1, collate_fn=collate, timeout=5)
        try:
            next(iter(loader))
        except RuntimeError as error:
            print("timed out" in str(error))
    """).succeeded()
    lost = [one for worker in run.workers for one in worker.process().failures if one.how == "feeder"]

    assert run.out == "True\n"
    assert {one.batch for one in lost} == {0, 1}
    assert lost[0].unpicklable == ["batch['names'][0].default_factory (a lambda, collate.<locals>.<lambda>)"]
    assert lost[0].culprit is not None


def test_batches_that_a_resumed_loader_passes_over_are_counted_apart(recorded: Recorded) -> None:
    run = recorded("""
        import sys
        import torch
        from torch.utils.data import IterableDataset
        from torchdata.stateful_dataloader import StatefulDataLoader

        sys.stderr = open("/dev/null", "w")  # it warns that it goes through all of them

        class Stream(IterableDataset):
            def __iter__(self):
                return (torch.zeros(1) for _ in range(40))

        def make():
            return StatefulDataLoader(Stream(), batch_size=2)

        first = make()
        for step, batch in enumerate(first, 1):
            if step == 12:
                state = first.state_dict()
                break
        second = make()
        second.load_state_dict(state)
        print(len(list(second)))
    """).succeeded()
    process = run.main.process()

    assert run.out == "8\n"
    assert [(one.who, one.skipped, one.of, one.ended) for one in process.skipping] == [
        ("StatefulDataLoader.load_state_dict", 12, 12, True)
    ]
    assert [one.batches for one in process.loaders] == [12, 8]


def test_batches_that_accelerate_skips_of_a_stream_are_counted_by_its_loader(recorded: Recorded) -> None:
    run = recorded("""
        import torch
        from accelerate import Accelerator, skip_first_batches
        from torch.utils.data import DataLoader, IterableDataset

        class Stream(IterableDataset):
            def __iter__(self):
                return (torch.zeros(1) for _ in range(40))

        loader = Accelerator(cpu=True).prepare(DataLoader(Stream(), batch_size=2))
        rest = iter(skip_first_batches(loader, 15))
        next(rest)
        print(len(list(rest)))
    """).succeeded()
    assert run.out == "4\n"
    assert [(one.who, one.skipped, one.of, one.ended) for one in run.main.process().skipping] == [
        ("accelerate.skip_first_batches", 15, 15, True)
    ]


def test_an_epoch_in_which_accelerate_skips_nothing_is_none_of_it(recorded: Recorded) -> None:
    run = recorded("""
        import torch
        from accelerate import Accelerator, skip_first_batches
        from torch.utils.data import DataLoader, IterableDataset

        class Stream(IterableDataset):
            def __iter__(self):
                return (torch.zeros(1) for _ in range(40))

        accelerator = Accelerator(cpu=True)
        for skip in (15, 0):
            loader = skip_first_batches(accelerator.prepare(DataLoader(Stream(), batch_size=2)), skip)
            for step, batch in enumerate(loader):
                if step == 3:
                    break
            del loader
    """).succeeded()
    assert all(one.ended for one in run.main.process().skipping)
