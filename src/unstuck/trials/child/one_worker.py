"""One worker of a loader, alone: it loads some batches while its memory is looked at, and then waits."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .drawing import samples_of
from .loaders import rebuilt
from .meter import resident

ALONE = {"num_workers": 1, "prefetch_factor": 1, "persistent_workers": False, "pin_memory": False}
EVERY = 0.005  # seconds between two looks


class Run(NamedTuple):
    """What it has done so far."""

    pid: int
    marks: list[tuple[int, int]]  # after so many batches, the most memory that it had taken
    samples: int
    wanted: int  # batches
    ended: bool  # with its pass

    @property
    def taken(self) -> int:
        return self.marks[-1][0]


@contextmanager
def loading(
    loader: Any, changes: dict[str, Any], seconds: float, wanted: Callable[[Any], int], samples: int = 0
) -> Iterator[Run]:
    """`wanted`: how many batches, told by the first of them. `samples`: that it loads at least."""
    made = rebuilt(loader, **{**ALONE, **changes})
    others = multiprocessing.active_children()
    batches = iter(made)
    pids = [one.pid for one in multiprocessing.active_children() if one not in others and one.pid]
    yield _loaded(made, batches, pids[0] if pids else 0, seconds, wanted, samples)
    del batches, made


def _loaded(made: Any, batches: Any, pid: int, seconds: float, wanted: Callable[[Any], int], samples: int) -> Run:
    sampler, until, marks = Sampler(pid), time.monotonic() + seconds, list[tuple[int, int]]()
    taken = loaded = most = 0
    ended = True
    for batch in _all(made, batches):
        taken, loaded, most = taken + 1, loaded + samples_of(batch, made), most or wanted(batch)
        if taken & (taken - 1) == 0:  # 1, 2, 4, 8 …
            marks.append((taken, sampler.largest))
        if (taken >= most and loaded >= samples) or (taken > 1 and time.monotonic() > until):
            ended = False
            break
    marks = [*(one for one in marks if one[0] < taken), (taken, sampler.most())]
    return Run(pid, marks, loaded, most, ended)


def _all(made: Any, batches: Any) -> Iterator[Any]:
    """Of one pass, or of one after the other, where the worker goes on with the next."""
    some = True
    while some:
        some = False
        for batch in batches:
            some = True
            yield batch
        if not made.persistent_workers:
            return
        batches = iter(made)


class Sampler(threading.Thread):
    """Looks at another process often."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self.largest, self._ends = pid, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ends.wait(EVERY):
            self.largest = max(self.largest, resident(self._pid))

    def most(self) -> int:
        self._ends.set()
        self.join()
        return self.largest
