"""Lengths of datasets as torch's own samplers are told them: a `__len__` of the user's is never called for us."""

from __future__ import annotations

from .holdings import attributes_of
from .weak import ByIdentity

COUNTED = (list, tuple, dict, range, str, bytes)  # whose length is Python's own business
TORCHS = "torch.utils.data.sampler"
STANDARD = ("SequentialSampler", "RandomSampler", "BatchSampler")


class Told:
    """What was told, for as long as the dataset lives."""

    __slots__ = ("fresh", "lengths")

    def __init__(self) -> None:
        self.lengths: ByIdentity[int] = ByIdentity()
        self.fresh = False  # somebody has asked since a loader last looked

    def add(self, dataset: object, length: int) -> None:
        if type(dataset).__weakrefoffset__:
            self.lengths.set(dataset, length)
        self.fresh = True

    def of(self, dataset: object) -> int | None:
        return len(dataset) if type(dataset) in COUNTED else self.lengths.get(dataset)  # type: ignore[arg-type]


def batches(index_sampler: object, dataset: object) -> tuple[int, int] | None:
    """Batches of a pass and samples of the dataset, where torch's own samplers alone decide. None: it is not known."""
    outer = attributes_of(index_sampler) if _is_standard(index_sampler) else {}
    sampler = outer.get("sampler", index_sampler)
    size = outer.get("batch_size", 1)  # without a batch sampler, each index is a batch
    own = attributes_of(sampler) if _is_standard(sampler) else {}
    length = told.of(dataset) if own.get("data_source") is dataset else None
    if length is None or type(size) is not int or size < 1:
        return None
    drawn = own["_num_samples"] if type(own.get("_num_samples")) is int else length
    return drawn // size if outer.get("drop_last") else -(-drawn // size), length


def _is_standard(sampler: object) -> bool:
    kind = type(sampler)
    return kind.__module__ == TORCHS and kind.__name__ in STANDARD


told = Told()
