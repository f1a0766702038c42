"""A run in half a sentence: how much it did, and what a faster loader could have gained it."""

from __future__ import annotations

from .evidence import Evidence
from .phrases import duration, many, percent
from .recorded import Loader

A_WHILE = 10.0  # seconds: in a shorter run, starting is most of it


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
    waited = longest.waits.total + longest.first_waits.total
    if looped < A_WHILE:
        return f"{done} in {duration(looped)}"
    gain = f"a faster loader would gain at most {percent(waited / looped)}"
    return f"{done} in {duration(looped)}; {gain}"


def _looped(loader: Loader) -> float:
    return loader.waits.total + loader.first_waits.total + loader.bodies.total
