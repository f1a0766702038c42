"""Which lists of a dataset are known to hold files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import BEGIN, Run

Recorded = Callable[..., Run]


@pytest.mark.parametrize(
    ("items", "are_files"),
    [
        ('["/data/my shard 1.tar", "/data/2"]', True),
        ('["part-0.parquet", "part-1.parquet"]', True),
        ('["s3://bucket/train-0.tar"]', True),
        ('("train/0", "train/1")', True),
        ('[__import__("pathlib").Path("a.csv")]', True),
        ('["a cat", "a dog and/or a cat"]', False),
        ("[1, 2, 3]", False),
        ('["v1.2", "v1.3"]', False),
        ("[]", False),
    ],
)
def test_a_list_of_paths_is_known_by_its_looks(recorded: Recorded, items: str, are_files: bool) -> None:
    program = f"dataset = Numbers()\ndataset.held = {items}\nfor batch in DataLoader(dataset): pass\n"
    (loader,) = recorded(BEGIN + program).succeeded().main.process().loaders

    assert ("held" in loader.files) is are_files
    assert not are_files or loader.files["held"] == len(eval(items))


def test_lists_inside_of_what_the_dataset_holds_are_found(recorded: Recorded) -> None:
    program = """
class Reader:
    def __init__(self): self.shards = ["0.tar", "1.tar", "2.tar"]
class Wrapped(Numbers):
    def __init__(self):
        super().__init__()
        self.reader = Reader()
for batch in DataLoader(torch.utils.data.Subset(Wrapped(), [0, 1])): pass
"""
    (loader,) = recorded(BEGIN + program).succeeded().main.process().loaders

    assert loader.files == {"reader.shards": 3}
