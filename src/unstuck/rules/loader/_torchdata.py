"""Loaders that are graphs of torchdata's nodes: why they are slow, and what to do."""

from __future__ import annotations

from math import ceil

from ...analysis.case import is_users
from ...evidence.finding import Remedy
from ...evidence.loader import Loader
from ...wording.text import many, short

NODES = "torchdata.nodes"
THREAD = "thread"
EACH = 4  # workers for each CPU core, at most: each costs memory, and a turn


def is_of_nodes(loader: Loader) -> bool:
    return loader.type.startswith(NODES)


def why(loader: Loader) -> str:
    """Why it cannot keep up. What its workers do with their time is not recorded."""
    if not loader.num_workers:
        return "its nodes map samples one by one in the training process"
    of = "thread" if loader.context == THREAD else "process"
    return f"a ParallelMapper with {many(loader.num_workers, of)} cannot keep up"


def ways(loader: Loader, cpus: int | None) -> list[Remedy]:
    """As many workers as would have brought a batch in the time of a step, had they always been busy."""
    each = loader.waits.mean + loader.bodies.mean
    needed = ceil(max(loader.num_workers, 1) * each / max(loader.bodies.mean, 1e-3))
    wanted = max(min(needed, EACH * (cpus or 2)), loader.num_workers + 1)
    place = short(loader.reads_at) if is_users(loader.reads_at) else "map_fn"
    found = [
        Remedy(
            "Give the mapper more workers" if loader.num_workers else "Map samples in parallel workers",
            code=[f"torchdata.nodes.ParallelMapper(node, map_fn, num_workers={wanted})"],
        )
    ]
    if loader.context == THREAD:
        text = f"If {place} computes in Python, map in processes: threads of one process take turns"
        code = f'torchdata.nodes.ParallelMapper(node, map_fn, num_workers={wanted}, method="process")'
        found.append(Remedy(text, code=[code]))
    return [*found, Remedy(f"Speed up {place}.")]
