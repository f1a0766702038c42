"""Loaders that accelerate has prepared on all ranks: what each rank is dealt, and what each has had of it."""

from __future__ import annotations

from typing import NamedTuple

from .distributed import Prepared
from .evidence import Evidence
from .recorded import Loader, Process
from .shares import BETWEEN

DISPATCHER = "DataLoaderDispatcher"


class Part(NamedTuple):
    """One rank's part in a prepared loader."""

    process: Process
    prepared: Prepared
    loader: Loader | None  # that came out of it

    @property
    def rank(self) -> int:
        return self.process.rank or 0

    @property
    def length(self) -> int | None:
        """As accelerate reckons it."""
        return self.prepared.after.length if self.prepared.after is not None else None

    def passed(self) -> dict[int, int]:
        """Batches of each pass that came to its end, by its number."""
        if self.loader is None:
            return {}
        found = {one.number: one.batches for one in self.loader.ended}
        if self.loader.now == BETWEEN:
            found[self.loader.passes] = self.loader.pass_batches
        return found

    def had(self) -> dict[int, int]:
        """The same, with the pass that it is in."""
        if self.loader is None or not self.loader.passes:
            return {}
        return {self.loader.passes: self.loader.pass_batches, **self.passed()}


def together(evidence: Evidence) -> list[list[Part]]:
    """Loaders that were prepared at the same line, as often as each was, with the parts of all ranks, by rank."""
    found: dict[tuple[object, ...], list[Part]] = {}
    for process in evidence.ranks():
        counts: dict[object, int] = {}
        for one in process.prepared:
            place = one.where
            counts[place] = counts.get(place, 0) + 1
            loader = next((other for other in process.loaders if other.number == one.loader), None)
            found.setdefault((place, counts[place]), []).append(Part(process, one, loader))
    return [parts for parts in found.values() if len(parts) > 1]


def is_dispatched(one: Prepared) -> bool:
    """Only the first rank loads, and sends the others their part."""
    return one.after is not None and one.after.type.endswith(DISPATCHER)


def will_fail(one: Prepared) -> bool:
    """accelerate shards what makes the batches, and here nobody does."""
    before = one.before
    nobody = before.batch_sampler is None and before.batch_size is None
    return nobody and not before.iterable and one.processes > 1 and not one.dispatch_batches and not is_dispatched(one)
