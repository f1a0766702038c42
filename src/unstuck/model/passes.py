"""What a pass over a loader should bring, what torch itself explains of a difference, and findings about loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .evidence import Evidence
from .questions import newest_loader, training_loaders
from .recorded import Failure, Loader, Process
from .report import Finding

BETWEEN = "between passes"
EMPTY = "empty-loader-drop-last"
# What code raises that relies on at least one round of a loop: nothing to divide by, to name, to take or to join.
OF_NOTHING = (
    "ZeroDivisionError", "UnboundLocalError", "NameError", "StopIteration", "IndexError", "KeyError", "ValueError",
    "TypeError", "AttributeError", "AssertionError", "RuntimeError", "StatisticsError",
)  # fmt: skip


def spare(loader: Loader) -> int:
    """Batches more or fewer than announced that are no mistake: every worker has an incomplete last one of its own."""
    return max(loader.num_workers, 1) - 1 if loader.iterable else 0


def used_loaders(evidence: Evidence) -> list[tuple[Process, Loader]]:
    """Loaders that were trained on, and those that would have been, had a batch come."""
    empty = [
        (main, loader) for main in evidence.mains() for loader in main.loaders if loader.ended and not loader.batches
    ]
    return training_loaders(evidence) + empty


def raised_after_nothing(process: Process, failure: Failure | None) -> Loader | None:
    """The loader whose pass without a single batch was the last thing that happened before an exception."""
    loader = newest_loader(process)
    if failure is None or failure.how != "uncaught" or loader is None or failure.index is not None:
        return None
    empty = loader.now == BETWEEN and loader.passes > 0 and not loader.pass_batches
    nothing_since = (process.last_step or 0.0) <= loader.now_since <= failure.at
    kind = failure.type.rpartition(".")[2]
    return loader if empty and nothing_since and kind in OF_NOTHING else None


def each_once(findings: Iterable[Finding | None]) -> Iterator[Finding]:
    """One finding for each loader of the code: every rank has its own of them, and they say the same."""
    told: set[str] = set()
    for one in findings:
        name = one.subject.name if one is not None and one.subject is not None else ""
        if one is not None and name not in told:
            told.add(name)
            yield one
