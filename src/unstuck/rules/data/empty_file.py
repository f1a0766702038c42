"""A data file holds nothing: no bytes, no rows, no members.

## What it looks at
The size of each file that is data by its name; the rows, members or arrays of those that have bytes.

## Why it happens
A job that opened its output and died, a full disk, a download that failed after the file was made, a filter that left
nothing over, one partition of many without a row. A file of no bytes makes most readers raise. One with a header and no
row is worse: it is read without a word, and a loader that goes round until it has enough goes round for ever where all
files are like that.

## What to do
Write or fetch it again, or take it out of the list.

## How sure it is
Certain. Whether nothing is what it was meant to hold, only you know. Empty files that are no data by their name, such
as `_SUCCESS`, are not meant.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost
from ...analysis.data_wording import fetch, finding, named
from ...evidence.finding import Certainty, Finding, Symptom
from ..rule import rule

QUIET = ("jsonl", "text", "")  # formats of which an empty file is a valid one


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = [one for one in bad(case, "empty", "no-rows") if one.file.format]
    found.sort(key=_raises, reverse=True)
    if found:
        loss, loud = cost(case, found), _raises(found[0])
        lost = f"; {loss}" if loss else ""
        then = "readers raise" if loud else "training gets nothing of it, without a word"
        yield finding(
            case,
            found,
            f"{_what(found)}: {then}{lost}.",
            fetch(case, found),
            Symptom.CRASHED.value if loud else "",
        )


def _raises(one: Bad) -> bool:
    return one.first.kind == "empty" and one.file.format not in QUIET


def _what(found: list[Bad]) -> str:
    name, first = named([one.file for one in found]), found[0].first
    if len(found) > 1:
        return f"{name} hold nothing"
    return f"{name} has no bytes at all" if first.kind == "empty" else f"{name} holds nothing ({first.what})"
