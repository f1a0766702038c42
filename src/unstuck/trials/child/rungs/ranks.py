"""The loader in two ranks of torch.distributed on this machine, each with its part of the data."""

from __future__ import annotations

import hashlib
import os
import pickle
import socket
import time
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.spawn import start_processes
from torch.utils.data import IterableDataset
from torch.utils.data.distributed import DistributedSampler
from torch.utils.data.sampler import RandomSampler, SequentialSampler

from ..loaders import rebuilt
from ..target import opened

if TYPE_CHECKING:
    from ..request import Facts

RANKS = 2


def run(request: dict[str, Any], facts: Facts) -> None:
    """`batches`: most of a rank; `seconds`: after which it is enough."""
    start_processes(_rank, (request, _port(), facts), RANKS, start_method="fork")  # type: ignore[no-untyped-call]
    facts.put(**facts.beside("rank0").read())


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _rank(rank: int, request: dict[str, Any], port: int, facts: Facts) -> None:
    """As torchrun would start it: the variables first, then the group, then the loader."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    torch.distributed.init_process_group("gloo")
    own = facts.beside(f"rank{rank}")
    loader, drawn = _shared(opened(request, own))
    counted = _looped(loader, request["options"])
    everyone: list[Any] = [None] * RANKS
    torch.distributed.all_gather_object(everyone, counted)
    own.put(ranks=everyone, drawn=drawn, workers=loader.num_workers)
    torch.distributed.destroy_process_group()


def _shared(loader: Any) -> tuple[Any, str]:
    """Frameworks put a DistributedSampler in where the loader has one of torch's own; nothing else is changed."""
    if isinstance(loader.dataset, IterableDataset):
        return loader, "stream"
    if isinstance(loader.sampler, DistributedSampler):
        return loader, "own DistributedSampler"
    plain = type(loader.sampler) in (SequentialSampler, RandomSampler)
    if not plain or type(loader.batch_sampler).__name__ not in ("BatchSampler", "NoneType"):
        return loader, "own sampler"
    shuffle = isinstance(loader.sampler, RandomSampler)
    return rebuilt(loader, sampler=DistributedSampler(loader.dataset, shuffle=shuffle)), "DistributedSampler"


def _looped(loader: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Both ranks take as many batches as there are, or as the time allows."""
    until, count, ended = 0.0, 0, True
    first = ""
    for batch in loader:
        first = first or _digest(batch)
        until = until or time.monotonic() + options.get("seconds", 10.0)
        count += 1
        if count >= options.get("batches", 20) or time.monotonic() > until:
            ended = False
            break
    return {"batches": count, "ended": ended, "first": first}


def _digest(batch: Any) -> str:
    """What stands for its content. Empty: it cannot be told."""
    try:
        return hashlib.sha256(pickle.dumps(batch)).hexdigest()
    except Exception:  # noqa: BLE001  (a batch may be anything)
        return ""
