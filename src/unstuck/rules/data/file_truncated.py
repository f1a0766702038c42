"""A file ends before what it announces: it was not written, or not copied, to its end.

## What it looks at
What a file says of its own length (the footer of a parquet file, the directory of an npz, the shape in the header of an
array, the end mark of a compressed file, the last line of JSON lines) and where it really ends.

## Why it happens
A download or a copy was interrupted, a disk or a quota was full, the process that wrote it was killed, or it is still
being written. The name is there and the size looks plausible.

## What to do
Fetch or write the file again. Have files written under another name and renamed when they are whole, so that a half one
is never taken for a whole one.

## How sure it is
Certain. A file that somebody is writing at this moment looks the same: its time of change tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost
from ...analysis.data_wording import fetch, finding, named
from ...evidence.finding import Certainty, Finding, Symptom
from ...wording.text import many
from ..rule import rule


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "cut")
    if found:
        what = cost(case, found) or found[0].first.what
        yield finding(case, found, f"{_where(found)}: {what}.", fetch(case, found))


def _where(found: list[Bad]) -> str:
    name = named([one.file for one in found])
    if len(found) > 1:
        return f"{name} end before what they announce"
    return f"{name} is cut off after {many(found[0].file.size, 'byte')}"
