"""How many of a dataset's files each rank, and each of its workers, has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.loading import Crew
from ...analysis.shares import Share
from ...evidence.loader import Loader

NEARLY = 0.2  # of a file: files of one dataset are about equally long, not exactly
APART = 0.1  # of the larger number: one file more in many makes no difference


class FileSplit(NamedTuple):
    """Files by rank or by worker."""

    name: str  # of the container
    files: int  # in all
    counts: dict[int, int]
    listed: bool  # each has a list of its own; else all have the same, and it is known how it is split

    @property
    def least(self) -> int:
        return min(self.counts.values())

    @property
    def most(self) -> int:
        return max(self.counts.values())

    @property
    def uneven(self) -> bool:
        return self.most - self.least >= APART * self.most and self.most > self.least

    def __str__(self) -> str:
        return ", ".join(f"{number}: {count:,}" for number, count in sorted(self.counts.items())[:8])


def among_ranks(shares: list[Share]) -> Iterator[FileSplit]:
    """By lists that differ from rank to rank, or by a common list that the number of ranks does not divide."""
    world = shares[0].process.world or len(shares)
    for name in sorted({name for one in shares for name in one.loader.files}):
        counts = {one.rank: _count(one.loader, name) for one in shares}
        known = {rank: count for rank, count in counts.items() if count is not None}
        if len(known) < world or any(_is_of_samples(one.loader, name) for one in shares):
            continue
        if len(set(known.values())) > 1:
            yield FileSplit(name, sum(known.values()), known, listed=True)
        elif shares[0].loader.iterable and known[shares[0].rank] % world:
            yield from _usual(name, known[shares[0].rank], world)


def among_workers(crew: Crew, others: list[Crew]) -> Iterator[FileSplit]:
    """By what each worker yielded, in files: of this rank's own, or of one list for all ranks."""
    for name, files in crew.loader.files.items():
        for together in ([crew], [crew, *others]) if others else ([crew],):
            samples = [one.samples for each in together for one in each.streams]
            counts = _whole_files(samples, files)
            if counts is not None:
                mine = {one.worker.worker or 0: count for one, count in zip(crew.streams, counts, strict=False)}
                yield FileSplit(name, files, mine, listed=False)


def _count(loader: Loader, name: str) -> int | None:
    """None: there is no such list. An empty one holds no paths, but is there."""
    empty = str(loader.attributes.get(name, "")) in ("list of 0", "tuple of 0")
    return 0 if empty else loader.files.get(name)


def _is_of_samples(loader: Loader, name: str) -> bool:
    """A list of samples, one in each file, is no list of files that hold them. Without a length it may be either."""
    return not loader.iterable and loader.dataset_length in (None, _count(loader, name))


def _usual(name: str, files: int, world: int) -> Iterator[FileSplit]:
    """Every n-th file, or so many in a row: which of the two it was shows in which rank had less."""
    each = -(-files // world)
    yield FileSplit(name, files, {rank: files // world + (rank < files % world) for rank in range(world)}, listed=False)
    rows = {rank: max(min(each, files - each * rank), 0) for rank in range(world)}
    yield FileSplit(name, files, rows, listed=False)


def _whole_files(samples: list[int], files: int) -> list[int] | None:
    """How many files each has read, if all have read whole ones of about the same length."""
    length = sum(samples) / files
    if not length:
        return None
    counts = [round(one / length) for one in samples]
    near = all(abs(one / length - count) <= NEARLY for one, count in zip(samples, counts, strict=True))
    return counts if near and sum(counts) == files else None
