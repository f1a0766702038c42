"""Datasets that sort their files into buckets and make their batches themselves, told by the shape of what they hold.

ai-toolkit has `buckets` (names and objects that hold a list each) and `batch_indices`; sd-scripts has `bucket_manager`
with `buckets` and `resos`, and `buckets_indices`. Their forks, and datasets written after them, have the same: a
container of containers whose name says bucket, and beside it a list with one entry for every batch.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from ..core.objects import ByIdentity, attributes_of, key_name
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import Kind

STEPS = re.compile(  # methods that set buckets up: setup_buckets, make_buckets, build_batch_indices …
    r"_?(re)?(set_?up|make|build|create|init|prepare|generate|assign|fill)_(\w+_)?(buckets|batch_indices|bucket_indices)$"
)
EPOCH = "setup_epoch"
INDEXED = ("batch_indices", "buckets_indices", "bucket_indices", "bucket_batches", "batches")
SIZED = (list, tuple, set, frozenset, dict)
INNER = ("dataset", "datasets", "_dataset")  # where one dataset holds others
DEEP, WIDE = 4, 16
KEPT = 32  # buckets whose number of files is told, the largest
MANY = 10_000  # buckets: beyond that it is something else
TOLD = 256  # notes of a process


class Known:
    """What was told of this process's datasets."""

    def __init__(self) -> None:
        self.numbers: ByIdentity[int] = ByIdentity()
        self.count = 0
        self.told: dict[int, str] = {}  # by loader
        self.early: list[tuple[dict[str, Any], int, int]] = []  # before there was a recording
        self.recorder: Recorder | None = None
        self.notes = 0

    def number(self, dataset: Any) -> int:
        found = self.numbers.get(dataset)
        if found is None:
            self.count = found = self.count + 1
            self.numbers.set(dataset, found)
        return found


def stepped(dataset: Any, step: str, begun: int) -> None:
    """A method that sets buckets up has returned."""
    facts = look(dataset)
    if facts is None:
        return
    told = {**facts, "step": step, "where": _place(dataset, step)}
    recorder = process.recorder
    if recorder is not None:
        _note(recorder, told, begun, clock() - begun)
    elif len(known.early) < WIDE:
        known.early.append((told, begun, clock() - begun))


def pass_begins(recorder: Recorder, number: int, dataset: Any) -> None:
    """A loader is gone through: which bucketed datasets it reads, where that is new or has changed."""
    if known.recorder is not recorder:
        known.recorder, known.told, known.notes = recorder, {}, 0
    early, known.early = known.early, []
    for told, begun, took in early:
        _note(recorder, told, begun, took)
    found = [facts for one in _bucketed(dataset, 0) if (facts := look(one)) is not None]
    text = json.dumps([{**one, "which": 0} for one in found])  # the same made anew is the same
    if not found or known.told.get(number) == text:
        return
    known.told[number] = text
    now = clock()
    for facts in found:  # all at one time: by that they are known to belong together
        _note(recorder, facts, now, 0, number)


def _note(recorder: Recorder, facts: dict[str, Any], begun: int, took: int, loader: int = 0) -> None:
    known.notes += 1
    if known.notes <= TOLD:
        recorder.note(Kind.BUCKETS, 0, begun, took, recorder.intern(json.dumps(facts, ensure_ascii=False)), loader)


def _bucketed(dataset: Any, depth: int) -> list[Any]:
    own = attributes_of(dataset)
    if _index_of(own) is not None and _buckets_of(own) is not None:
        return [dataset]
    if depth >= DEEP:
        return []
    inner: list[Any] = [own.get(name) for name in INNER]
    several = [each for one in inner if type(one) in (list, tuple) for each in islice(one, WIDE)]
    single = [one for one in inner if one is not None and type(one) not in (list, tuple)]
    return [found for one in [*single, *several] for found in _bucketed(one, depth + 1)]


def look(dataset: Any) -> dict[str, Any] | None:
    """None: it has no buckets, or has not set them up yet."""
    own = attributes_of(dataset)
    index, buckets = _index_of(own), _buckets_of(own)
    if index is None or buckets is None:
        return None
    sizes = dict(_sizes(*buckets))
    size = own.get("batch_size") if type(own.get("batch_size")) is int else None
    return {
        "dataset": f"{type(dataset).__module__}.{type(dataset).__qualname__}",
        "which": known.number(dataset),
        "where": _written(dataset),
        **summed(sizes),
        "batch_size": size,
        "batches": len(index),
        "index": next(name for name in INDEXED if own.get(name) is index),
        "partial": _partial(list(sizes.values()), size, len(index)),
    }


def summed(sizes: dict[str, int]) -> dict[str, Any]:
    largest = sorted(sizes.items(), key=lambda one: -one[1])[:KEPT]
    return {"files": dict(largest), "count": len(sizes), "total_files": sum(sizes.values())}


def _partial(sizes: list[int], size: int | None, batches: int) -> int | None:
    """Batches that are not full; None where they were not made by filling them up bucket by bucket."""
    if not size or sum(-(-one // size) for one in sizes) != batches:
        return None
    return sum(1 for one in sizes if one % size)


def _index_of(own: dict[str, Any]) -> list[Any] | None:
    return next((own[name] for name in INDEXED if type(own.get(name)) is list), None)


def _buckets_of(own: dict[str, Any]) -> tuple[Any, Any] | None:
    """The buckets, and their resolutions where these lie beside them."""
    for name, value in own.items():
        if "bucket" not in name or name in INDEXED:
            continue
        inner = attributes_of(value)
        holder = inner if "buckets" in inner else {"buckets": value}
        buckets = holder["buckets"]
        plain = type(buckets) is list or issubclass(type(buckets), dict)
        if plain and 0 < len(buckets) <= MANY and _holds_lists(buckets):
            return buckets, holder.get("resos")
    return None


def _holds_lists(buckets: Any) -> bool:
    values = dict.values(buckets) if issubclass(type(buckets), dict) else buckets
    return all(_size_of(one) is not None for one in islice(values, WIDE))


def _sizes(buckets: Any, resolutions: Any) -> list[tuple[str, int]]:
    if issubclass(type(buckets), dict):
        return [(key_name(key), _size_of(one) or 0) for key, one in dict.items(buckets)]
    named = type(resolutions) is list and len(resolutions) == len(buckets)
    names = [key_name(one) for one in resolutions] if named else [str(number) for number in range(len(buckets))]
    counts: dict[str, int] = {}
    for name, one in zip(names, buckets, strict=True):
        counts[name] = counts.get(name, 0) + (_size_of(one) or 0)
    return list(counts.items())


def _size_of(bucket: Any) -> int | None:
    """Files in it: of a container, or of the longest list that an object holds."""
    if type(bucket) in SIZED:
        return len(bucket)
    lists = [len(one) for one in attributes_of(bucket).values() if type(one) is list]
    return max(lists, default=None)


def _written(dataset: Any) -> dict[str, Any] | None:
    """The method that makes the list of batches, or sets the buckets up, or else the class's constructor."""
    names = [name for one in type(dataset).__mro__ for name in vars(one) if STEPS.match(name)]
    for name in [*sorted(names, key=lambda one: "indices" not in one), "__init__"]:
        place = _place(dataset, name)
        if place is not None:
            return place
    return None


def _place(dataset: Any, method: str) -> dict[str, Any] | None:
    function = getattr(type(dataset), method, None)
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return None if code is None else {"file": code.co_filename, "line": code.co_firstlineno, "function": method}


known = Known()
