"""A file contradicts itself or its own checksums: bytes of it are not what was written.

## What it looks at
All of the file, decompressed and decoded as its format wants it: checksums where it has some, headers and footers,
sizes and offsets that must agree with each other, pages that must decode.

## Why it happens
Storage or memory that flips bits, a copy that was put together of pieces of two versions, a file that was written to
while it was copied, a transfer in text mode, two processes that wrote one file. Libraries notice it when they come to
that place, if they check at all: parquet pages and many arrays carry no checksum.

## What to do
Fetch or write the file again. If it comes back damaged, look at the way it takes: compare checksums at each end.

## How sure it is
Certain that what is there cannot be what was meant. Where a format has no checksums, a changed number looks like any
other number: that cannot be found without a manifest of the whole data (`--write-manifest`, `--against`).
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
    found = bad(case, "damaged")
    if found:
        what = cost(case, found) or found[0].first.what
        yield finding(case, found, f"{_where(found)}: {what}.", fetch(case, found))


def _where(found: list[Bad]) -> str:
    name, total = named([one.file for one in found]), sum(one.total for one in found)
    if len(found) > 1:
        return f"{name} are damaged, in {many(total, 'place')}"
    at = f" at byte {found[0].first.at:,}" if found[0].first.at is not None else ""
    more = f" and in {many(total - 1, 'other place')}" if total > 1 else ""
    return f"{name} is damaged{at}{more}"
