"""What one worker costs: by itself, when it stands idle, and at the most, while it makes batches as in training.

Between what is in use the allocator leaves holes, and how large these get depends on what is made in which order, and
on how many batches were handed over. It cannot be calculated: so it is measured, with shuffle buffers no larger than
can be filled at once, by a worker that has its share of a pass as it has in training.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from typing import TYPE_CHECKING, Any

from . import choosing
from .collating import GivingBack
from .meter import anonymous, give_back, own
from .one_of_several import OneOfSeveral
from .one_worker import EVERY, loading
from .sizes import sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .fresh import Ask
    from .request import Facts
    from .shuffles import Shuffle

    Once = Callable[[int, list[int], int], None]

BATCHES = 3
SMALL = 2  # samples of a batch: so little of them is left in the worker
PATIENCE = 6.0  # seconds
ROOM = 1 << 30  # bytes of a batch that is made for that
FILLED = 256 << 20  # and of a shuffle buffer
ENOUGH = 64  # batches, after which the holes are about what they will be, …
NOTED = 128  # … and so many tensors, which torch has noted when it cleans up for the first time
AHEAD = 2  # batches ordered: one is handed over while the next is made, as in training; with 1, it comes to less
ROUNDS = 2  # times that a shuffle buffer is gone through
TRIES = 3  # workers, of which the largest counts: by chance, with a shuffle buffer one took 181, another 278 MiB


def idle(loader: Any, facts: Facts, seconds: float) -> None:
    """By itself. Before anything was loaded here: a training's main process has not, and its workers import for it."""
    facts.put(doing="loading with one worker", method=method_of(loader))
    size = choosing.batch_size(loader) if choosing.is_batched(loader) else None
    changes = _batches_of(loader, min(size or 1, SMALL))
    give_back()  # or the worker would be forked with what we have freed, and give it back itself
    before = anonymous()
    told, path = tempfile.mkstemp(prefix="unstuck-settled-")
    changes["collate_fn"] = GivingBack(loader.collate_fn, path)
    with loading(loader, changes, seconds, lambda _: BATCHES) as run:
        _wait(path, run.taken + 1)
        private = own(run.pid)
        copied = max(private - max(anonymous(run.pid) - before, 0), 0) if method_of(loader) == "fork" else 0
        more = max(anonymous() - before, 0)
        found = {"private": private, "copied": copied, "batches": run.taken, "main": more}
    os.close(told)
    os.unlink(path)
    facts.put(worker=found, doing="")


def _wait(path: str, batches: int) -> None:
    """Until the worker has made what was ordered, one more than was taken, and has given back what it freed."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and os.path.getsize(path) < batches:
        time.sleep(EVERY)


def _batches_of(loader: Any, size: int) -> dict[str, Any]:
    own_size = choosing.is_batched(loader) and type(loader.batch_sampler).__name__ == "BatchSampler"
    return {"batch_size": size} if own_size else {}


def busy(ask: Ask, work: Once, told: Facts, facts: Facts, seconds: float, held: int, elements: list[int]) -> None:
    """What one takes on the average: of as many workers as there is time for, each from a fresh process.

    `held`: bytes of one sample; `elements`: of one in each buffer. Where a fresh process cannot do it, the same `work`
    is done here: so what fails is recorded.
    """
    facts.put(doing="loading with one busy worker")
    alone, until, runs = facts.seen("worker"), time.monotonic() + seconds, list[dict[str, Any]]()
    while len(runs) < TRIES:
        began = time.monotonic()
        given = held, elements, alone["private"] - alone["copied"]
        if not ask(*given):
            work(*given)
        runs.append(told.read()["busy"])
        now = time.monotonic()
        if now + (now - began) > until:
            break
    facts.put(doing="", busy=_usual(runs))


def _usual(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Holes differ by chance, the same worker's from 165 to 299 MiB; several workers together have about their mean."""
    furthest = max(runs, key=lambda one: one["grown"][-1][0])
    counts = [count for count, _ in furthest["grown"]]
    seen = {count: [most for one in runs for at, most in one["grown"] if at == count] for count in counts}
    return {**furthest, "grown": [(count, sum(seen[count]) // len(seen[count])) for count in counts]}


def once(
    loader: Any,
    buffers: list[Shuffle],
    workers: int,
    seconds: float,
    told: Facts,
    held: int,
    elements: list[int],
    needed: int,
) -> None:
    """One of `workers` that share a pass: what it takes above what it was forked with and has `needed` when idle."""
    size = choosing.batch_size(loader) if choosing.is_batched(loader) else None
    fits = max(min(size or 1, ROOM // max(held, 1)), 1)
    for one, element in zip(buffers, elements, strict=True):
        one.hold(max(FILLED // max(element, 1), 1))
    through = max((ROUNDS * one.held_back for one in buffers), default=0)
    before = needed + (anonymous() if method_of(loader) == "fork" else 0)
    changes = {**_batches_of(loader, fits), **_as_in_training(loader, workers, fits * held)}
    with loading(loader, changes, seconds, _until_cleaned, through) as run:
        grown = [(count, max(most - before, 0)) for count, most in run.marks]
    streams = run.ended and choosing.is_stream(loader.dataset)
    whole = workers * (run.samples if choosing.is_batched(loader) else run.taken) if streams else None
    held_back = [one.held_back for one in buffers]
    told.put(busy={"grown": grown, "batch": fits, "settles": run.wanted, "in_a_pass": whole, "buffers": held_back})


def _as_in_training(loader: Any, workers: int, batch: int) -> dict[str, Any]:
    """`batch`: bytes of one, of which some have to lie in /dev/shm."""
    ahead = min(loader.prefetch_factor or AHEAD, AHEAD)
    return {
        "persistent_workers": loader.persistent_workers,
        "prefetch_factor": ahead if (ahead + 1) * batch < _shm_free() else 1,
        "worker_init_fn": OneOfSeveral(workers, loader.worker_init_fn),
    }


def _shm_free() -> int:
    try:
        now = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return now.f_bavail * now.f_frsize


def _until_cleaned(batch: Any) -> int:
    """Batches until torch has dropped what it notes of the tensors that were handed over."""
    from torch.multiprocessing import reductions

    noted = getattr(getattr(reductions, "shared_cache", None), "limit", NOTED)
    return max(noted // max(sizes_of(batch).tensors, 1) + 1, ENOUGH)


def method_of(loader: Any) -> str:
    """How its workers are started."""
    context = getattr(loader, "multiprocessing_context", None)
    return str(context.get_start_method() if context is not None else multiprocessing.get_start_method())
