"""A shard does not exist: one that was named, or one from the middle of a numbered series.

## It means
The download of one file failed unnoticed, one of many jobs that wrote them died, or a file was moved. A brace range in
a training's configuration then raises at that file, in the middle of an epoch. A glob simply has one file less, and
training silently continues without it.

## Fix
Fetch or write the missing files. If they were left out on purpose, list the files that exist:

```python
# before
urls = "data/birds-{000000..000127}.tar"
# after
urls = sorted(glob.glob("data/birds-*.tar"))
assert len(urls) == 127, len(urls)
```

## Check it yourself
```sh
ls data/birds-*.tar | wc -l
for number in $(seq -f %06g 0 127); do test -e "data/birds-$number.tar" || echo "missing: $number"; done
```

## Not this, if
- the file is there and holds nothing: [empty-file](empty-file.md)
- a manifest lists the missing file: [manifest-disagrees](manifest-disagrees.md)
- there are too few shards for all workers or ranks:
  [wds-fewer-shards-than-workers](wds-fewer-shards-than-workers.md)

## How sure
Likely: certain that the files are missing, concluded that a number in a gap should exist. It is judged from paths and
brace ranges that were asked for, from gaps in a numbered series (`shard-000000.tar` to `shard-000127.tar`), and from
names that say how many there are (`part-00003-of-00128.parquet`). It speaks where at most 10 % of the numbers between
the first and the last are missing, and not of names that exist in another folder. What is missing after the last number
is only known where names, a range or a manifest say so.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import absent
from ...analysis.data_series import Gap, gaps
from ...analysis.data_wording import LINES
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable
from ...wording.text import many
from ..rule import rule

TEXTS = ("[Errno 2] No such file or directory",)


@rule(explains=Symptom.WRONG, certainty=Certainty.LIKELY, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    if case.data is None or case.data.of_run:
        return
    holes = gaps(case)
    known = {path for one in holes for path in one.missing} | {one.path for one in absent(case)}
    named = [one for one in case.data.absent if one not in known]
    if named:
        yield _named(case, named, len(case.data.files))
    if holes:
        yield _between(case, holes)


def _named(case: Case, absent: list[str], there: int) -> Finding:
    more = f" and {many(len(absent) - 1, 'other file')} do" if len(absent) > 1 else " does"
    return case.finding(
        cause=f"{_first(absent)}{more} not exist: training that names {_them(absent)} raises when "
        f"{'its' if len(absent) == 1 else 'their'} turn comes.",
        seen=[*_names(absent), f"{many(there, 'file')} of what was asked for {'exists' if there == 1 else 'exist'}"],
        remedy=_fetch(absent),
        alternatives=[Remedy("Name only the files that exist.")],
        subject=Subject("file", absent[0]),
        symptom=Symptom.BAD_DATA.value,
    )


def _between(case: Case, holes: list[Gap]) -> Finding:
    missing, first = [path for one in holes for path in one.missing], holes[0]
    there = len(first.series.files)
    are = "is" if len(missing) == 1 else f"and {many(len(missing) - 1, 'other file')} are"
    return case.finding(
        cause=f"{_first(missing)} {are} missing from a series of {there + len(first.missing):,} files: a glob silently "
        f"skips {_them(missing)}, a brace range raises.",
        seen=[_span(first), *_names(missing)],
        remedy=_fetch(missing),
        alternatives=[Remedy("Give the training a list of the files that exist, if the gap is intended.")],
        subject=Subject("file", missing[0]),
        symptom=Symptom.BAD_DATA.value,
    )


def _fetch(paths: list[str]) -> Remedy:
    if len(paths) == 1:
        return Remedy(f"Fetch {printable(paths[0])}, or write it from the source.")
    return Remedy(f"Fetch the {len(paths):,} missing files, or write them from the source.")


def _them(paths: list[str]) -> str:
    return "it" if len(paths) == 1 else "them"


def _first(paths: list[str]) -> str:
    return printable(paths[0].rpartition("/")[2])


def _span(gap: Gap) -> str:
    files = gap.series.files
    return f"{many(len(files), 'file')} from {printable(files[0].path)} to {_first([files[-1].path])}"


def _names(paths: list[str]) -> list[str]:
    lines = [f"missing: {printable(one)}" for one in paths[:LINES]]
    return lines if len(paths) <= LINES else [*lines, f"and {many(len(paths) - LINES, 'more file')}"]
