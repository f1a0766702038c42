"""A shard that belongs to the data is not there: one that was named, or one from the middle of a numbered series.

## What it looks at
Paths and brace ranges that were asked for and lead to no file. Gaps in a numbered series of files (`shard-000000.tar`
to `shard-000127.tar`), and names that say how many there are (`part-00003-of-00128.parquet`).

## Why it happens
A download of one file failed and nobody noticed, a job of many that wrote them died, somebody moved one away. A brace
range in a training's configuration then raises at that file, in the middle of an epoch; a glob simply has one file
less, and nothing ever says so.

## What to do
Fetch or write the missing files. If they were left out on purpose, list the files that are there.

## How sure it is
Certain that they are not there. That a number in a gap should be there is concluded: it speaks where at most 10 % of
the numbers between the first and the last are missing, and not of names that are there in another folder. What is
missing behind the last number is only known where names, a range or a manifest say so.
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
    what = "A file that was asked for is" if len(absent) == 1 else f"{len(absent):,} files that were asked for are"
    return case.finding(
        cause=f"{what} not there: {_first(absent)} ({many(there, 'file')} {'is' if there == 1 else 'are'}). A training "
        "that names it the same way raises when its turn comes.",
        seen=_names(absent),
        remedy=Remedy("Fetch what is missing, or name only what is there."),
        subject=Subject("file", absent[0]),
        symptom=Symptom.CRASHED.value,
    )


def _between(case: Case, holes: list[Gap]) -> Finding:
    missing, first = [path for one in holes for path in one.missing], holes[0]
    there = len(first.series.files)
    are = "is" if len(missing) == 1 else f"and {many(len(missing) - 1, 'other file')} are"
    return case.finding(
        cause=f"{_first(missing)} {are} missing from a series of {there + len(first.missing):,} files: a glob reads "
        "the others without a word, a range in a configuration raises.",
        seen=[_span(first), *_names(missing)],
        remedy=Remedy(
            "Fetch or write what is missing. If it was left out on purpose, give the training a list of the files that "
            "are there."
        ),
        subject=Subject("file", missing[0]),
    )


def _first(paths: list[str]) -> str:
    return printable(paths[0].rpartition("/")[2])


def _span(gap: Gap) -> str:
    files = gap.series.files
    return f"{many(len(files), 'file')} from {printable(files[0].path)} to {_first([files[-1].path])}"


def _names(paths: list[str]) -> list[str]:
    lines = [f"not there: {printable(one)}" for one in paths[:LINES]]
    return lines if len(paths) <= LINES else [*lines, f"and {many(len(paths) - LINES, 'more file')}"]
