"""Ranks that train together and all read the same samples of webdataset's, in the same order."""

from __future__ import annotations

from typing import NamedTuple

from .crews import crews
from .evidence import Evidence
from .questions import training_loaders
from .recorded import Loader, Process
from .shards import Shards
from .web_shards import newest

DDP = "DistributedDataParallel"
BATCHES = 2  # in the same order: one batch may be the same by chance
Content = tuple[tuple[int, ...], ...]


class Same(NamedTuple):
    """Loaders of several ranks whose first epochs began alike."""

    mains: list[Process]
    loader: Loader
    shards: Shards
    batches: int


def same_on_ranks(evidence: Evidence) -> Same | None:
    """Only where gradients are averaged: what does not learn together may well read the same."""
    alike: dict[tuple[int, Content], list[tuple[Process, Loader, Shards]]] = {}
    for main, loader in training_loaders(evidence):
        shards = _not_shared(evidence, main, loader)
        content = _content(evidence, main, loader)
        if shards is not None and content and any(one.kind == DDP for one in main.wrapped):
            alike.setdefault((loader.number, content), []).append((main, loader, shards))
    for (_, content), found in alike.items():
        if len({main.rank for main, _, _ in found}) > 1:
            _, loader, shards = found[0]
            return Same([main for main, _, _ in found], loader, shards, len(content[0]))
    return None


def _readers(evidence: Evidence, main: Process, loader: Loader) -> list[Process]:
    known = crews(evidence, main, loader)
    return known[0] if known else [main] if not loader.num_workers else []


def _not_shared(evidence: Evidence, main: Process, loader: Loader) -> Shards | None:
    """The list that a rank's processes read as if there were no other ranks."""
    lists = [found for one in _readers(evidence, main, loader) if (found := newest(one)) is not None]
    alone = [one for one in lists if one.ranks == 1 and not one.resampled]
    return alone[0] if alone and len(alone) == len(lists) and (main.world or 1) > 1 else None


def _content(evidence: Evidence, main: Process, loader: Loader) -> Content:
    """What stands for the first batches of each process; empty where they tell nothing."""
    begun = [
        tuple(each.digests[0])
        for one in _readers(evidence, main, loader)
        for each in one.fetching
        if each.digests and each.loader in (0, loader.number)
    ]
    telling = [one for one in begun if len(one) >= BATCHES and len(set(one)) == len(one)]
    return tuple(telling) if len(telling) == len(begun) else ()
