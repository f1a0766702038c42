"""What one worker costs: by itself, when it stands idle, and at the most, while it makes batches as in training.

Between what is in use the allocator leaves holes, and how large these get depends on what is made in which order.
It cannot be calculated: so it is measured, with shuffle buffers no larger than can be filled at once.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import choosing
from .collating import GivingBack
from .drawing import samples_of
from .loaders import rebuilt
from .meter import anonymous, give_back, own, resident

if TYPE_CHECKING:
    from .request import Facts
    from .shuffles import Shuffle

BATCHES = 3
SMALL = 2  # samples of a batch: so little of them is left in the worker
PATIENCE = 6.0  # seconds
ROOM = 1 << 30  # bytes of a batch that is made for that
FILLED = 256 << 20  # and of a shuffle buffer
ENOUGH = 64  # batches, after which the holes are about what they will be
ROUNDS = 2  # times that a shuffle buffer is gone through
TRIES = 3  # workers with a shuffle buffer: one and the same took 66 or 174 MB, by chance
EVERY = 0.005  # seconds between two looks


def idle(loader: Any, facts: Facts, seconds: float) -> None:
    """By itself. Before anything was loaded here: a training's main process has not, and its workers import for it."""
    facts.put(doing="loading with one worker", method=method_of(loader))
    size = choosing.batch_size(loader) if choosing.is_batched(loader) else None
    changes = _batches_of(loader, min(size or 1, SMALL))
    give_back()
    before = anonymous()
    told, path = tempfile.mkstemp(prefix="unstuck-settled-")
    changes["collate_fn"] = GivingBack(loader.collate_fn, path)
    with _loading(loader, changes, BATCHES, seconds) as (pid, _, taken):
        _wait(path, taken + 1)
        private = own(pid)
        copied = max(private - max(anonymous(pid) - before, 0), 0) if method_of(loader) == "fork" else 0
        more = max(anonymous() - before, 0)
        found = {"private": private, "copied": copied, "batches": taken, "main": more}
    os.close(told)
    os.unlink(path)
    facts.put(worker=found, doing="")


def busy(loader: Any, facts: Facts, seconds: float, buffers: list[Shuffle], held: int) -> None:
    """At the most, above what it was forked with. `held`: bytes of one sample."""
    facts.put(doing="loading with one busy worker")
    size = choosing.batch_size(loader) if choosing.is_batched(loader) else None
    fits = max(min(size or 1, ROOM // max(held, 1)), 1)
    for one in buffers:
        one.hold(max(FILLED // max(one.element, 1), 1))
    through = max((ROUNDS * one.held_back for one in buffers), default=0)
    grown, until = list[int](), time.monotonic() + seconds
    for number in range(TRIES if buffers else 1):
        if number and time.monotonic() > until:
            break
        give_back()
        then = anonymous()
        with _loading(loader, _batches_of(loader, fits), ENOUGH, seconds, through) as (_, most, taken):
            grown.append(max(most - (then if method_of(loader) == "fork" else 0) - _kept(facts), 0))
    held_back = [one.held_back for one in buffers]
    facts.put(
        doing="", busy={"grown": sorted(grown)[len(grown) // 2], "batch": fits, "batches": taken, "buffers": held_back}
    )


def _kept(facts: Facts) -> int:
    """What an idle worker has taken for itself: a stream keeps what it has read ahead."""
    found = facts.seen("worker", {})
    return int(found.get("private", 0) - found.get("copied", 0))


def _wait(path: str, batches: int) -> None:
    """Until the worker has made what was ordered, one more than was taken, and has given back what it freed."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and os.path.getsize(path) < batches:
        time.sleep(EVERY)


def _batches_of(loader: Any, size: int) -> dict[str, Any]:
    own_size = choosing.is_batched(loader) and type(loader.batch_sampler).__name__ == "BatchSampler"
    return {"batch_size": size} if own_size else {}


@contextmanager
def _loading(
    loader: Any, changes: dict[str, Any], most: int, seconds: float, samples: int = 0
) -> Iterator[tuple[int, int, int]]:
    """One worker that has loaded some batches and now waits: its number, the most it took, and how many they were.

    `samples`: that it loads instead of so many batches, to go through a shuffle buffer as often as is wanted.
    """
    alone = {"num_workers": 1, "prefetch_factor": 1, "persistent_workers": False, "pin_memory": False}
    until = time.monotonic() + seconds
    give_back()  # or the worker would be forked with what we have freed, and give it back itself
    batches = iter(rebuilt(loader, **{**alone, **changes}))
    pids = [one.pid for one in multiprocessing.active_children() if one.pid]
    sampler, taken = Sampler(pids[-1] if pids else 0), 0
    loaded = 0
    for batch in batches:
        taken += 1
        loaded += samples_of(batch, loader)
        enough = loaded >= samples if samples else taken >= most
        if enough or (taken > 1 and time.monotonic() > until):
            break
    yield (pids[-1] if pids else 0), sampler.most(), taken
    del batches


class Sampler(threading.Thread):
    """Looks at another process often."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._most, self._ends = pid, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ends.wait(EVERY):
            self._most = max(self._most, resident(self._pid))

    def most(self) -> int:
        self._ends.set()
        self.join()
        return self._most


def method_of(loader: Any) -> str:
    """How its workers are started."""
    context = getattr(loader, "multiprocessing_context", None)
    return str(context.get_start_method() if context is not None else multiprocessing.get_start_method())
