"""A file is made in a way that harms whoever reads or unpacks it: a bomb, a path that leads outside, a name that lies.

## What it looks at
How much a compressed file gives for how little; sizes that are announced against what is there; names and links of
members that are absolute, lead up with `..` or hold control characters.

## Why it happens
By intention, or by a damaged length that asks for terabytes. A loader that decompresses a bomb into memory is killed;
one that unpacks members by their names (`tar.extractall` without a filter) writes where it should not; control
characters in a name change what a terminal or a log shows.

## What to do
Do not unpack it, and do not train on it before you know where it comes from. Nothing of it was unpacked here.

## How sure it is
Certain of what is there. Archives of a whole file system hold absolute names without any bad intention.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import bad
from ...analysis.data_wording import finding, listed_out, listing, named
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many
from ..rule import rule

UNPACKED = ' If an archive has to be unpacked, use `tar.extractall(path, filter="data")`, which refuses such members.'


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "hostile")
    if found and case.data is not None and not case.data.of_run:  # no run fails of a name
        files, total = [one.file for one in found], sum(one.total for one in found)
        more = f", and {many(total - 1, 'more thing')} of that kind" if total > 1 else ""
        are = "is" if len(found) == 1 else "are"
        yield finding(
            case,
            found,
            f"{named(files)} {are} not safe to read: {found[0].first.what}{more}.",
            Remedy(
                f"Find out where {listing(files)} came from before anything reads or unpacks it."
                + (UNPACKED if files[0].format == "tar" else ""),
                listed_out(case),
            ),
        )
