"""A sample cannot be decoded: the file around it is whole, and what it holds there is not what it should be.

## What it looks at
Members of archives, lines and rows, each really decoded: JSON, text, arrays (members of archives with `--decode`).
Which sample it is, and at which byte it begins.

## Why it happens
A program that was stopped in the middle of a line and went on later, two that wrote into one file, a field in another
encoding, an error message in place of a record, a copy of a file that was cut before it was packed. The decoder raises
when that sample's turn comes, and in every epoch again.

## What to do
Write these samples again, or leave them out on purpose: `--quarantine` writes their names, with a filter for the
loader.

## How sure it is
Certain that the decoder refuses them. A loader that never looks at that part would not notice.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad
from ...analysis.data_wording import finding, listed_out, listing, named, once_more
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many
from ..rule import rule


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "undecodable")
    if found:
        total, name = sum(one.total for one in found), named([one.file for one in found])
        yield finding(
            case,
            found,
            f"{many(total, 'sample')} of {name} cannot be decoded, first {_which(found[0])}: a loader that does not "
            f"expect it raises there.",
            Remedy(
                f"Write {listing([one.file for one in found])} again, or leave these samples out: --quarantine writes "
                "their names, with a filter for the loader.",
                [*listed_out(case), *once_more(case, found[0].file)],
            ),
        )


def _which(one: Bad) -> str:
    fault = one.first
    if fault.row is not None:
        return f"{'line' if one.file.format == 'jsonl' else 'row'} {fault.row:,}"
    return fault.sample or fault.member or "the file itself"
