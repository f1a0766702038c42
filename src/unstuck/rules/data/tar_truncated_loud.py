"""A tar archive is cut off in the data of a member: whoever reads that far gets an error.

## What it looks at
Every header of the archive, and whether all the data that it announces is there. How many samples are missing, by the
manifest, or by the other archives of the series.

## Why it happens
A download or a copy was interrupted, a disk or a quota was full while the archive was written, or the process that
wrote it was killed. The file looks like any other until a reader comes to its end: Python's tarfile and webdataset then
raise `ReadError: unexpected end of data`, hours into the run, and again in every epoch.

## What to do
Fetch or write the file again. A handler such as `wds.warn_and_continue` does not leave out one sample there: it leaves
out the rest of the shard.

## How sure it is
Certain that the file ends before its data does. How many samples are lost is counted by the manifest, where there is
one; by the siblings it is an estimate, and said to be one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost
from ...analysis.data_wording import fetch, finding, named
from ...evidence.finding import Certainty, Finding, Symptom
from ..rule import rule


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "tar-cut-data")
    if found:
        loss = cost(case, found)
        lost = f": {loss}" if loss else ", and what stood behind it is lost"
        yield finding(case, found, f"{_where(found)}. Readers raise an error there{lost}.", fetch(case, found))


def _where(found: list[Bad]) -> str:
    first, name = found[0].first, named([one.file for one in found], "archive")
    if len(found) > 1:
        return f"{name} are cut off in the data of a member"
    inside = f", in the data of {first.member}" if first.member else ""
    return f"{name} is cut off at byte {found[0].file.size:,}{inside}"
