"""The rows of a parquet file: all of them are decoded, and where that fails it is found out what is bad.

The row groups are read in one go, as training reads them. Where pyarrow refuses to go on, the row group in which that
is and its columns are read alone, to say which are bad; then it goes on with the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from ..noting import Notes
from .columns import Bad, Decoding, bad_columns
from .contents import Contents
from .source import Ahead, kind_of, memory_of, refusal, refusals

FEWER = 16  # times fewer rows in a batch, where memory was not enough
NAMED = 3  # bad columns of one row group that are named


class Ended(NamedTuple):
    """Where reading came to an end, and why; nothing: all is read."""

    row: int
    why: str = ""
    kind: str = ""  # of the fault, where pyarrow refused; else there are fewer rows than the footer says


class RowGroups:
    """Row groups, from first to last."""

    def __init__(self, decoding: Decoding, rows: list[int], notes: Notes, ahead: Ahead) -> None:
        self._file, self._size = decoding
        self._notes, self._ahead = notes, ahead
        self._starts = [0, *accumulate(rows)]  # the first row of each row group, and the number of all rows
        self._groups = len(rows)
        self._contents = Contents(self._file.schema_arrow, notes)
        self._lost = 0

    def read(self) -> None:
        first = 0
        while first < self._groups:
            ended = self._through(first, self._groups, 0)
            first = self._blame(ended) if ended.why else self._groups
        self._look_ahead(self._starts[-1])  # what stands behind the last row: indices, and the footer
        self._contents.done()
        self._notes.facts(samples=self._starts[-1] - self._lost)

    def _through(self, first: int, last: int, known: int) -> Ended:
        """Reads these row groups. Rows before `known` were counted already."""
        row = self._starts[first]
        try:
            self._look_ahead(row + self._size)
            for batch in self._file.iter_batches(self._size, row_groups=list(range(first, last)), use_threads=False):
                batch.validate()
                seen = min(max(known - row, 0), batch.num_rows)
                self._contents.add(batch[seen:] if seen else batch, row + seen)
                row += batch.num_rows
                self._look_ahead(row + self._size)
        except refusals() as error:
            if memory_of(error) is not None and self._size > 1:
                self._size = max(self._size // FEWER, 1)
                return self._through(self._group(row), last, max(row, known))
            return Ended(row, refusal(error), kind_of(error, self._notes))
        all_there = row == self._starts[last]
        return Ended(row, "" if all_there else f"{row - self._starts[first]:,} rows are there")

    def _look_ahead(self, row: int) -> None:
        """About as much of the file as these rows take: compressed, they differ."""
        self._ahead.to(self._notes.size * row / self._starts[-1])

    def _group(self, row: int) -> int:
        return min(bisect_right(self._starts, row), self._groups) - 1

    def _blame(self, ended: Ended) -> int:
        """Notes the row group in which reading ended, and gives the next one."""
        for group in range(self._group(ended.row), self._group(ended.row + self._size) + 1):
            alone = self._through(group, group + 1, ended.row)
            if alone.why:
                self._damaged(group, alone)
                return group + 1
        lost = self._starts[-1] - ended.row
        self._lost += lost
        what = f"from row {ended.row:,} on it cannot be read: {ended.why}"
        self._notes.fault("damaged", what, row=ended.row, lost=lost)
        return self._groups

    def _damaged(self, group: int, ended: Ended) -> None:
        start, end = self._starts[group : group + 2]
        lost = end - start if ended.kind else max(end - ended.row, 0)
        kind = ended.kind or "damaged"
        self._lost += lost
        where = f"row group {group:,} of {self._groups:,}, rows {start:,} to {end - 1:,}"
        bad = bad_columns(self._file, group, self._size)
        if not bad:
            self._notes.fault(kind, f"{where}: {ended.why}", row=start, lost=lost)
            return
        what = f"{where}: {self._named(bad)}: {bad[0].why}"
        self._notes.fault(kind, what, member=bad[0].name, row=start, at=bad[0].at, until=bad[0].until, lost=lost)

    def _named(self, bad: list[Bad]) -> str:
        if len(bad) == self._file.metadata.num_columns > 1:
            return f"all {len(bad):,} columns are bad"
        names = ", ".join(one.name for one in bad[:NAMED])
        more = f" and {len(bad) - NAMED:,} more" if len(bad) > NAMED else ""
        return f"column {names} is bad" if len(bad) == 1 else f"columns {names}{more} are bad"
