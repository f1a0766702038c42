"""What a pass over a loader should bring, what torch itself explains of a difference, and findings about loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .evidence import Evidence
from .questions import training_loaders
from .recorded import Loader, Process
from .report import Finding


def spare(loader: Loader) -> int:
    """Batches more or fewer than announced that are no mistake: every worker has an incomplete last one of its own."""
    return max(loader.num_workers, 1) - 1 if loader.iterable else 0


def used_loaders(evidence: Evidence) -> list[tuple[Process, Loader]]:
    """Loaders that were trained on, and those that would have been, had a batch come."""
    empty = [
        (main, loader) for main in evidence.mains() for loader in main.loaders if loader.ended and not loader.batches
    ]
    return training_loaders(evidence) + empty


def each_once(findings: Iterable[Finding | None]) -> Iterator[Finding]:
    """One finding for each loader of the code: every rank has its own of them, and they say the same."""
    told: set[str] = set()
    for one in findings:
        name = one.subject.name if one is not None and one.subject is not None else ""
        if one is not None and name not in told:
            told.add(name)
            yield one
