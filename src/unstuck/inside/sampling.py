"""What a distributed sampler has at the beginning of a pass: which share of which order it is about to give."""

from __future__ import annotations

import json
from typing import Any

from .format import Kind
from .holdings import attributes_of
from .recorder import Recorder, clock
from .told_lengths import told
from .weak import ByIdentity

PASSES = 16  # that are told
DEEP = 4  # samplers around samplers: batches, and what accelerate puts around those
HOLDERS = ("batch_sampler", "sampler")
OWN = ("num_replicas", "rank", "epoch")  # what only a distributed sampler has
TORCHS = "torch.utils.data.distributed"
KEEPING = ("torch.utils.data.", "accelerate.data_loader")  # whose batch samplers keep the order of what they hold


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
    length = told.of(own.get("dataset")) if standard else None
    if length is not None:  # it has asked for it when it was made
        found["dataset_length"] = length
    return found


def _gives_torchs_order(kind: type) -> bool:
    """Its `__iter__` is torch's own: its class is torch's, or does not override it."""
    owner = next((one for one in type.mro(kind) if "__iter__" in vars(one)), None)
    return owner is not None and (owner.__module__, owner.__name__) == (TORCHS, "DistributedSampler")


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


_datasets: ByIdentity[int] = ByIdentity()
_count: list[None] = []
