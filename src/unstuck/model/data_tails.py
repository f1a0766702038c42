"""Archives that end with far more zeros than their siblings: their last members were never written, or were lost."""

from __future__ import annotations

from statistics import median

from .checked import DataFile, Fault
from .data_names import all_series
from .evidence import Evidence
from .faults import Bad

SIBLINGS = 3
PADDING = 32 << 10  # bytes: three records of tar. One ends an archive, and some writers fill up one more
TIMES = 4  # what is usual in the series: programs that pad to larger blocks do so in all of them


def long_tails(evidence: Evidence) -> list[Bad]:
    """As faults of the kind `zeros`, the longest first."""
    found = []
    for series in all_series(evidence):
        archives = [one for one in series.files if one.tail and "zeros" not in one.counts]
        if len(archives) > SIBLINGS:
            usual = median(one.tail for one in archives)
            found += [_bad(one, int(usual)) for one in archives if one.tail > max(PADDING, TIMES * usual)]
    return sorted(found, key=lambda one: -one.file.tail)


def _bad(file: DataFile, usual: int) -> Bad:
    at = file.size - file.tail
    what = f"its last {file.tail:,} bytes are zeros, where the others of its series end with {usual:,}"
    return Bad(file, [Fault("zeros", what, at=at, until=file.size)], 1)
