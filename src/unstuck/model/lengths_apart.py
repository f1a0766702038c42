"""Ranks of a run that goes on whose loaders have different lengths: at the end of the pass they will part."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from .evidence import Evidence
from .ranks import entry_name, stand
from .shares import Share, joins, shared_loaders

AGREEING = ("all_reduce", "all_gather", "allgather", "broadcast")


def lengths_apart(evidence: Evidence) -> Iterator[list[Share]]:
    """Loaders in their very first pass, of ranks that live and train with DDP; who has least comes first."""
    stands = stand(evidence)
    alive = len(stands) > 1 and all(one.process is not None and one.process.alive for one in stands)
    if evidence.stall is not None or not alive:
        return
    for shares in shared_loaders(stands):
        lengths = {one.loader.length for one in shares}
        if len(lengths) > 1 and None not in lengths and all(map(_trains_first_pass, shares)):
            yield sorted(shares, key=lambda one: one.loader.length or 0)


def _trains_first_pass(one: Share) -> bool:
    ddp = any(each.kind == "DistributedDataParallel" for each in one.process.wrapped)
    first = one.loader.passes == 1 and one.inside and one.loader.optimizer_steps > 0
    return ddp and first and not joins(one) and not _agrees(one)


def _agrees(one: Share) -> bool:
    """The user's own code reduces or gathers single numbers: that is how ranks agree on where to stop."""
    own = [each for each in one.process.collectives if entry_name(each) in AGREEING]
    return any(prod(size) <= 1 for each in own for size in each.sizes)
