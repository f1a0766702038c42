"""What samplers tell: which share of which order a distributed one is about to give, and how long datasets are.

Lengths are known as torch's own samplers are told them: a `__len__` of the user's is never called for us.
"""

from __future__ import annotations

import json
from typing import Any

from ..core.objects import ByIdentity, attributes_of
from ..core.recorder import Recorder, clock
from ..format import Kind

PASSES = 16  # that are told
DEEP = 4  # samplers around samplers: batches, and what accelerate puts around those
HOLDERS = ("batch_sampler", "sampler")
OWN = ("num_replicas", "rank", "epoch")  # what only a distributed sampler has
TORCHS_DISTRIBUTED = "torch.utils.data.distributed"
KEEPING = ("torch.utils.data.", "accelerate.data_loader")  # whose batch samplers keep the order of what they hold

COUNTED = (list, tuple, dict, range, str, bytes)  # whose length is Python's own business
TORCHS_SAMPLERS = "torch.utils.data.sampler"
STANDARD = ("SequentialSampler", "RandomSampler", "BatchSampler")


def pass_begins(recorder: Recorder, number: int, loader: dict[str, Any], passes: int) -> None:
    """Of a loader, by its attributes. Nothing of the user's is run."""
    sampler, kept = _distributed(loader) if passes <= PASSES else (None, False)
    if sampler is not None:
        standard = kept and _gives_torchs_order(type(sampler))
        text = json.dumps(_facts(sampler, attributes_of(sampler), standard=standard), ensure_ascii=False)
        recorder.note(Kind.SAMPLING, number, clock(), 0, passes, recorder.intern(text))


def _distributed(loader: dict[str, Any]) -> tuple[Any, bool]:
    """The sampler, and whether its order is kept by all that stands around it."""
    waiting = [(loader.get(name), True, 0) for name in HOLDERS]
    while waiting:
        one, kept, depth = waiting.pop(0)
        own = attributes_of(one)
        if all(type(own.get(name)) is int for name in OWN):
            return one, kept
        if depth < DEEP:
            kept = kept and type(one).__module__.startswith(KEEPING)
            waiting += [(own[name], kept, depth + 1) for name in HOLDERS if name in own]
    return None, False


def _facts(sampler: Any, own: dict[str, Any], *, standard: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": f"{type(sampler).__module__}.{type(sampler).__qualname__}",
        "standard": standard,
        "shuffle": own.get("shuffle") is True,
        "drop_last": own.get("drop_last") is True,
        "replicas": own["num_replicas"],
        "rank": own["rank"],
        "epoch": own["epoch"],
        "seed": own.get("seed") if type(own.get("seed")) is int else None,
        "samples": own["num_samples"] if type(own.get("num_samples")) is int else 0,
        "dataset": _which(own.get("dataset")),
    }
    length = told_lengths.of(own.get("dataset")) if standard else None
    if length is not None:  # it has asked for it when it was made
        found["dataset_length"] = length
    return found


def _gives_torchs_order(kind: type) -> bool:
    """Its `__iter__` is torch's own: its class is torch's, or does not override it."""
    owner = next((one for one in type.mro(kind) if "__iter__" in vars(one)), None)
    return owner is not None and (owner.__module__, owner.__name__) == (TORCHS_DISTRIBUTED, "DistributedSampler")


def _which(dataset: object) -> int:
    """The first that is met is 1. An order that is the same over other data is another."""
    if dataset is None or type(dataset).__weakrefoffset__ == 0:  # a plain list
        return 0
    known = _datasets.get(dataset)
    if known is None:
        _count.append(None)
        known = len(_count)
        _datasets.set(dataset, known)
    return known


class ToldLengths:
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


def told_batches(index_sampler: object, dataset: object) -> tuple[int, int] | None:
    """Batches of a pass and samples of the dataset, where torch's own samplers alone decide. None: it is not known."""
    outer = attributes_of(index_sampler) if _is_standard(index_sampler) else {}
    sampler = outer.get("sampler", index_sampler)
    size = outer.get("batch_size", 1)  # without a batch sampler, each index is a batch
    own = attributes_of(sampler) if _is_standard(sampler) else {}
    length = told_lengths.of(dataset) if own.get("data_source") is dataset else None
    if length is None or type(size) is not int or size < 1:
        return None
    drawn = own["_num_samples"] if type(own.get("_num_samples")) is int else length
    return drawn // size if outer.get("drop_last") else -(-drawn // size), length


def _is_standard(sampler: object) -> bool:
    kind = type(sampler)
    return kind.__module__ == TORCHS_SAMPLERS and kind.__name__ in STANDARD


_datasets: ByIdentity[int] = ByIdentity()
_count: list[None] = []

told_lengths = ToldLengths()
