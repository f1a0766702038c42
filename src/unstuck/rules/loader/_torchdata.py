"""Loaders that are graphs of torchdata's nodes: what is known of them, and in which words."""

from __future__ import annotations

from math import ceil

from ...analysis.case import is_users
from ...evidence.loader import Loader
from ...wording.text import many, short

NODES = "torchdata.nodes"
THREAD = "thread"
EACH = 4  # workers for each processor, at most: each costs memory, and a turn


def is_of_nodes(loader: Loader) -> bool:
    return loader.type.startswith(NODES)


def why(loader: Loader) -> str:
    """Why it does not keep up. What its workers do with their time is not recorded."""
    if not loader.num_workers:
        return "its nodes map one sample after the other, in the training process itself"
    of = "thread" if loader.context == THREAD else "process"
    return f"its ParallelMapper has {many(loader.num_workers, of)}"


def remedy(loader: Loader, cpus: int | None) -> str:
    """As many as would have brought a batch in the time that one is trained on, had they always been at work."""
    each = loader.waits.mean + loader.bodies.mean
    needed = ceil(max(loader.num_workers, 1) * each / max(loader.bodies.mean, 1e-3))
    wanted = max(min(needed, EACH * (cpus or 2)), loader.num_workers + 1)
    place = short(loader.reads_at) if is_users(loader.reads_at) else "its map_fn"
    text = f"Give the mapper more workers, tn.ParallelMapper(…, num_workers={wanted})"
    if loader.context == THREAD:
        text += ", with method='process' if it computes in Python: threads of one process take turns"
    return f"{text}; or make {place} cheaper."
