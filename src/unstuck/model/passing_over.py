"""A resumed training that passes over what it was trained on before: no step is made, and nothing is wrong."""

from __future__ import annotations

from .buckets import Skipping
from .phrases import duration, many
from .recorded import Process

TOO_FEW = 3  # batches from which nobody can tell how long the rest will take


def passing_over(process: Process) -> list[Skipping]:
    """What it is at now."""
    return [one for one in process.skipping if not one.ended] if process.alive else []


def in_words(one: Skipping) -> str:
    """`passing over 120 of 400 batches that were trained before (accelerate.skip_first_batches), about 40 s left`."""
    of = f"{one.skipped:,} of {many(one.of, 'batch')}" if one.of else many(one.skipped, "batch")
    left = remaining(one)
    soon = f", about {duration(left)} left" if left is not None else ""
    return f"passing over {of} that were trained before ({one.who}){soon}"


def remaining(one: Skipping) -> float | None:
    """Seconds, if it goes on as before."""
    if not one.of or one.skipped < TOO_FEW or one.skipped >= one.of:
        return None
    return one.seconds / one.skipped * (one.of - one.skipped)
