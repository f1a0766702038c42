"""A run in half a sentence: how much it did."""

from __future__ import annotations

from .evidence import Evidence
from .phrases import duration, many
from .recorded import Loader


def summary(evidence: Evidence) -> str:
    """Of the loader that was looped over longest, over all ranks. Empty: nothing was."""
    loaders = [one for main in evidence.mains() for one in main.loaders if one.batches]
    if not loaders:
        return ""
    longest = max(loaders, key=lambda one: (one.optimizer_steps > 0, _looped(one)))
    done = many(longest.optimizer_steps, "step") if longest.optimizer_steps else many(longest.batches, "batch")
    looped = _looped(longest)
    if not looped:
        return done
    return f"{done} in {duration(looped)}"


def _looped(loader: Loader) -> float:
    return loader.waits.total + loader.first_waits.total + loader.bodies.total
