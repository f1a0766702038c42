"""Questions that rules ask of the rungs of a ladder."""

from __future__ import annotations

from ...evidence.finding import Symptom
from ...evidence.loader import Loader
from ...evidence.trial import Measured, Rung, Trial
from ...report import root_of
from ...wording.text import duration, ending, many, size

ALONE, AS_IT_IS = "0 workers", "as it is"  # of the benchmark
HANGS = ("stall", "time")  # what ended a rung without progress


def rung_named(trial: Trial, name: str) -> Rung | None:
    return next((one for one in trial.rungs if one.name == name), None)


def symptom_of(rung: Rung) -> str:
    root = root_of(rung.findings)
    if root is not None:
        return root.symptom
    return str((Symptom.STUCK if rung.ended in HANGS else Symptom.CRASHED).value)


def loader_of(trial: Trial) -> Loader:
    target = trial.target
    return target.loader if target is not None and target.loader is not None else Loader(0)


def ended_words(rung: Rung) -> str:
    """How a rung that failed came to its end."""
    got = f"after {many(rung.batches, 'batch')}" if rung.batches else "before the first batch"
    got = f", {got}" if rung.workers is not None else f", after {many(rung.samples, 'sample')}" if rung.samples else ""
    how = {
        "stall": f"no progress, stopped after {duration(rung.seconds)}",
        "time": f"not finished after {duration(rung.seconds)}",
        "memory": f"stopped by unstuck at {size(rung.peak)} of memory",
    }.get(rung.ended, f"its process {ending(rung.exit)}" if rung.exit else "failed")
    return f"{how}{got}"


def as_it_is(measured: list[Measured]) -> Measured | None:
    """The loader with its own settings. One without workers is measured once: alone is as it is."""
    own = [one for one in measured if one.name == AS_IT_IS]
    found = own or [one for one in measured if one.name == ALONE]
    return next((one for one in found if one.rate and not one.failed), None)


def feeds(trial: Trial, step: float) -> bool:
    """A training with steps of that length would not wait for the loader, as far as is known."""
    own, batch = as_it_is(trial.measured), loader_of(trial).batch_size or 1
    return own is None or own.rate * (1 + own.noise) >= batch / step


def needed(trial: Trial, step: float) -> str:
    """What a training with steps of that length takes, in words."""
    rate = (loader_of(trial).batch_size or 1) / step
    return f"training: a step of {duration(step)} takes {f'{rate:,.0f}' if rate >= 100 else f'{rate:.3g}'} samples/s"


def sample_size(trial: Trial) -> float:
    """Bytes that a sample shows. Where the dataset gives whole batches, each counts as the samples it has."""
    sizes = sorted(one.size for one in trial.samples)
    if not sizes:
        return 0.0
    own = as_it_is(trial.measured)
    whole = loader_of(trial).batch_size is None and own is not None and own.batches
    return sizes[len(sizes) // 2] / (max(own.samples / own.batches, 1.0) if whole and own is not None else 1.0)
