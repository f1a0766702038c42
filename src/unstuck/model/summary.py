"""A run in half a sentence: how much it did."""

from __future__ import annotations

from .evidence import Evidence
from .phrases import duration, many
from .recorded import Loader, Process


def summary(evidence: Evidence) -> str:
    """Of the rank that looped longest. Empty: none did."""
    mains = [one for one in evidence.mains() if any(loader.batches for loader in one.loaders)]
    if not mains:
        return ""
    longest = max(mains, key=lambda one: (one.optimizer_steps > 0, sum(map(_looped, _loops(one)))))
    loops = _loops(longest)
    # Two loaders that are gone through at once both count a step that is made meanwhile.
    steps = longest.optimizer_steps or sum(one.optimizer_steps for one in loops)
    done = many(steps, "step") if steps else many(sum(one.batches for one in loops), "batch")
    looped = sum(map(_looped, loops))
    return f"{done} in {duration(looped)}" if looped else done


def _loops(main: Process) -> list[Loader]:
    """Those it trained in; where no step is known, the longest. One that is made anew each epoch counts each time."""
    trained = [one for one in main.loaders if one.optimizer_steps]
    return trained or [max(main.loaders, key=_looped)]


def _looped(loader: Loader) -> float:
    return loader.waits.total + loader.first_waits.total + loader.bodies.total
