"""The first batch of a loader, or of a generator that is none: how long it took, and how long those after it."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence
from .feeding import Feeding, feeding
from .recorded import Loader, Process

ENDED_WELL = 0


class First(NamedTuple):
    """The first batch, and what came after it."""

    fed: Feeding
    began: float  # when it was asked for
    seconds: float  # that it took, or has taken so far
    came: bool
    of: float  # seconds from when it was asked for to the end, or to now
    later: float | None  # seconds for each batch after it; None: there was none
    others: int  # how many those were
    later_share: float  # of the time after it that went into getting batches
    loader: Loader | None = None  # None: a generator of the user's own

    @property
    def moves(self) -> bool:
        """Something was read or made lately."""
        return self.began + self.of - self.fed.newest < 10.0


def first_batch(evidence: Evidence, process: Process) -> First | None:
    """None: nothing is known of it."""
    fed = feeding(evidence, process)
    loader = _loader(process)
    if loader is not None:
        return _of_loader(evidence, process, loader, fed)
    return _of_generator(evidence, process, fed) if process.sources else None


def now(evidence: Evidence, process: Process) -> float:
    if process.alive and evidence.looked_at is not None:
        return evidence.looked_at
    return process.ended if process.ended is not None else process.last_sign


def _loader(process: Process) -> Loader | None:
    """The one that is trained on; before the first step, the one that was asked first."""
    asked = [one for one in process.loaders if one.passes or one.batches]
    trained = [one for one in asked if one.optimizer_steps]
    return min(trained or asked, key=lambda one: one.number, default=None)


def _of_loader(evidence: Evidence, process: Process, loader: Loader, fed: Feeding) -> First | None:
    end = now(evidence, process)
    if not loader.batches:
        began = loader.began if loader.began is not None else loader.now_since
        return First(fed, began, end - began, came=False, of=end - began, later=None, others=0, later_share=0.0,
                     loader=loader)  # fmt: skip
    took = loader.first[0] if loader.first else loader.first_waits.longest
    began = loader.began if loader.began is not None else _asked(loader, end, took)
    waits, looped = loader.waits, loader.waits.total + loader.bodies.total
    # Most of them, not one that stood still: the mean alone would be that one's.
    later = min(waits.mean, 1.5 * waits.p50) if waits.count else None
    share = waits.total / looped if looped else 0.0
    return First(fed, began, took, came=True, of=end - began, later=later, others=waits.count, later_share=share,
                 loader=loader)  # fmt: skip


def _asked(loader: Loader, end: float, took: float) -> float:
    """About when: what came after it is known by its length."""
    return max(end - took - loader.waits.total - loader.bodies.total, 0.0)


def _of_generator(evidence: Evidence, process: Process, fed: Feeding) -> First | None:
    """Only where it goes on asking: who tokenises everything before he trains has no first batch to wait for."""
    asks = fed.buffer is not None or any(one.later for one in process.sources)
    began, end = fed.began, now(evidence, process)
    if began is None or not asks:
        return None
    first, last, steps = process.first_step, process.last_step, process.optimizer_steps
    if not steps or first is None or last is None:
        unknown = process.ended is not None and evidence.run.status == ENDED_WELL  # it may train without an optimizer
        taken = end - began
        return None if steps or unknown else First(fed, began, taken, came=False, of=taken, later=None, others=0,
                                                   later_share=0.0)  # fmt: skip
    spent = sum(one.later for one in process.sources)
    later = (last - first) / (steps - 1) if steps > 1 else None
    share = spent / (last - first) if last > first else 0.0
    return First(fed, began, first - began, came=True, of=end - began, later=later, others=steps - 1, later_share=share)
