"""Questions about data files that were read: which have what wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .checked import DataFile, Fault
from .evidence import Evidence
from .finding import Subject
from .phrases import many

FEW = 5  # places that are told in full; the rest is counted


class Bad(NamedTuple):
    """A file with faults of the kinds that were asked for, the first first."""

    file: DataFile
    faults: list[Fault]
    total: int  # of all of them; no more than some are kept

    @property
    def first(self) -> Fault:
        return self.faults[0]

    @property
    def subject(self) -> Subject:
        return Subject("file", self.file.path)

    @property
    def lost(self) -> int | None:
        known = [one.lost for one in self.faults if one.lost is not None]
        return sum(known) if known else None

    def seen(self) -> list[str]:
        """A line for each of the first, and how many more there are."""
        lines = [_line(one) for one in self.faults[:FEW]]
        return lines if self.total <= FEW else [*lines, f"and {many(self.total - FEW, 'more place')} like these"]


def bad(evidence: Evidence, *kinds: str) -> Iterator[Bad]:
    """Files that have faults of these kinds."""
    for file in evidence.data.files if evidence.data is not None else ():
        faults = [one for one in file.faults if one.kind in kinds]
        if faults:
            yield Bad(file, faults, sum(file.counts.get(kind, 0) for kind in kinds))


def _line(fault: Fault) -> str:
    where = f"byte {fault.at:,}: " if fault.at is not None else ""
    return f"{where}{fault.what}"
