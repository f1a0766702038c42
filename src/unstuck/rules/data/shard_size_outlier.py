"""One shard is far smaller or larger than all others of its series, though nothing else is wrong.

## It means
A writer was stopped and closed its archive properly, a filter hit one source, only the first lines were converted, or
two shards ended up in one. Such a file is complete by itself: only its siblings show that something is missing. Workers
that get it finish early, or late.

## Fix
Compare the shard with its source, and write it again if it should have been like the others. Count what a writer
writes, so a short shard fails when it is made:

```python
with wds.TarWriter("birds-000006.tar") as writer:
    for sample in samples:
        writer.write(sample)
assert len(samples) == 100, len(samples)
```

## Check it yourself
```sh
ls -lS data/                                  # largest first
for shard in data/*.tar; do echo "$(tar -tf "$shard" | wc -l) $shard"; done | sort -n | head
```

## Not this, if
- the shard is damaged, and its rest is lost: [tar-truncated-silent](tar-truncated-silent.md),
  [tar-truncated-loud](tar-truncated-loud.md)
- the shards are fine, and ranks get a different number of them: [uneven-file-assignment](uneven-file-assignment.md)
- it is the last of its series, which holds the remainder: nothing is wrong then

## How sure
Possible: the numbers are certain, and whether it is meant to be so, only you know. It is judged from samples and bytes
of each file of a numbered series, against the median of the series and how much the others vary. It speaks where the
others vary little compared with the distance, and where at most 5 % of a series are like that. How many bytes a table
takes depends on how well it can be compressed, so of tables only rows are compared. The last of a series may be
smaller; what a manifest confirms is taken as meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.data_files import SHARDS, Series, all_series, base, incomplete, listed, pattern_of, plain
from ...analysis.data_series import counting, following
from ...analysis.data_wording import LINES, about, the_same
from ...evidence.data import DataFile
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable
from ...wording.text import many, size
from ..rule import rule

SIBLINGS = 8  # fewer do not show what is usual
FAR = 10.0  # times the middle deviation of the others, in logarithms: seven standard deviations
LEAST = math.log(1.5)  # and half as many again: where all others are alike, a few samples less are nothing
MOST = 0.05  # of a series: where more are like that, it is how they were written


class Outlier(NamedTuple):
    """One file, and what the others have."""

    file: DataFile
    series: Series
    own: int
    usual: int
    what: str


@rule(explains=Symptom.WRONG, certainty=Certainty.POSSIBLE, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    left_out = incomplete(case) | _confirmed(case)
    found = [one for series in all_series(case) for one in _outliers(series, left_out)]
    if found:
        yield _finding(case, sorted(found, key=lambda one: one.own / max(one.usual, 1)))


def _confirmed(case: Case) -> set[str]:
    """Files that have what the manifest says."""
    entries = listed(case)
    files = case.data.files if case.data is not None else []
    return {one.path for one in files if one.path in entries and entries[one.path].samples == one.samples is not None}


def _outliers(series: Series, left_out: set[str]) -> list[Outlier]:
    whole = [one for one in series.files if one.format in SHARDS and one.path not in left_out]
    known = [one for one in whole if one.samples is not None and one.whole]
    found = _far(series, known, lambda one: one.samples or 0, "sample")
    plain = [one for one in whole if one.samples is None or one.format == "tar"]
    return found or _far(series, plain, lambda one: one.size, "byte")


def _far(series: Series, files: list[DataFile], number: Callable[[DataFile], int], what: str) -> list[Outlier]:
    if len(files) < SIBLINGS:
        return []
    values = {one.path: math.log(max(number(one), 1)) for one in files}
    middle = median(values.values())
    spread = median(abs(one - middle) for one in values.values())
    far = [one for one in files if abs(values[one.path] - middle) > max(FAR * spread, LEAST)]
    last, usual = _without_next(series) if far else set(), round(math.exp(middle))
    far = [one for one in far if number(one) > usual or one.path not in last]
    return [Outlier(one, series, number(one), usual, what) for one in far] if len(far) <= _most(files) else []


def _most(files: list[DataFile]) -> int:
    return max(int(MOST * len(files)), 1)


def _without_next(series: Series) -> set[str]:
    """Files after which none has the next number: the end of what a writer had to write."""
    index, names = counting(series), {plain(one.path) for one in series.files}
    return {one.path for one in series.files if index is None or following(one.path, index) not in names}


def _finding(case: Case, found: list[Outlier]) -> Finding:
    one, more = found[0], len(found) - 1
    like_it = (
        [f"{many(more, 'other file')} of these series {'is' if more == 1 else 'are'} far off, too"] if more else []
    )
    write = f"{the_same(case)} --write-manifest manifest.jsonl"
    return case.finding(
        cause=f"{base(one.file.path)} has {_amount(one.own, one.what)}, the other shards of its series about "
        f"{_amount(one.usual, one.what) if one.what == 'byte' else f'{one.usual:,}'}.",
        seen=[
            *(f"{printable(each.file.path)}: {about(each.file)}" for each in found[:LINES]),
            f"median of the {len(one.series.files):,} files of {printable(pattern_of(one.file.path))}: "
            f"{_amount(one.usual, one.what)}",
            *like_it,
        ],
        remedy=Remedy(
            f"Compare {printable(one.file.path)} with its source, and write it again if it should be like the others."
        ),
        alternatives=[
            Remedy("Write a manifest, if it is meant to be so: a check with --against accepts what it says.", [write])
        ],
        subject=Subject("file", one.file.path),
        symptom=Symptom.BAD_DATA.value,
    )


def _amount(number: int, what: str) -> str:
    return many(number, what) if what == "sample" else size(number)
