"""Bucketed datasets of a distributed run: how many batches their buckets make, and what is left over for whom."""

from __future__ import annotations

from typing import NamedTuple

from .buckets import Buckets
from .recorded import Loader, Process
from .shares import Share


class Dealt(NamedTuple):
    """The batches of one loader's buckets, and how the ranks' shares of them come out."""

    buckets: list[Buckets]  # of one rank: one for each dataset that its loader reads
    batches: dict[int, int]  # by rank, what each lists
    ranks: int
    alike: bool  # all ranks have sorted the same files into their buckets

    @property
    def cut(self) -> bool:
        """Every rank's list has its own part only; else all list the same, and the loader or sampler takes a part."""
        return len(set(self.batches.values())) > 1

    @property
    def own(self) -> bool:
        """Every rank has sorted files of its own into buckets."""
        return self.cut and not self.alike

    @property
    def total(self) -> int:
        return sum(self.batches.values()) if self.cut else next(iter(self.batches.values()))

    @property
    def remainder(self) -> int:
        return self.total % self.ranks

    def explains(self, least: int, most: int, lengths: list[int | None]) -> bool:
        """Whether that one rank had only `least` batches in a pass and another `most` is what is left over."""
        if self.cut:
            return least in self.batches.values() and least < max(self.batches.values())
        known = [one for one in lengths if one is not None]
        shared_out = len(known) < self.ranks or sum(known) == self.total
        return bool(self.remainder) and least * self.ranks < self.total and most <= self.total and shared_out


def buckets_of(process: Process, loader: Loader) -> list[Buckets]:
    """The newest of each dataset that the loader reads; what was told of a dataset, where it is the only loader."""
    found = [one for one in process.buckets if one.loader == loader.number and not one.told]
    if found:
        newest = max(one.at for one in found)
        return [one for one in found if one.at == newest]
    told = [one for one in process.buckets if one.told and one.batches is not None]
    used = [one for one in process.loaders if one.passes]
    trains = [one for one in used if one.optimizer_steps] or used
    return told[-1:] if loader in trains and len(trains) == 1 else []


def dealt(shares: list[Share]) -> Dealt | None:
    """None: not all ranks are known to read buckets."""
    known = {one.rank: buckets_of(one.process, one.loader) for one in shares}
    ranks = max((one.process.world or 0 for one in shares), default=0) or len(shares)
    if ranks < 2 or not all(known.values()) or any(each.batches is None for one in known.values() for each in one):
        return None
    batches = {rank: sum(each.batches or 0 for each in one) for rank, one in known.items()}
    files = [[each.files for each in one] for one in known.values()]
    return Dealt(known[min(known)], batches, ranks, alike=all(one == files[0] for one in files))
