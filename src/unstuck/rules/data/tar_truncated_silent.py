"""Readers take a damaged place in a tar archive for its end: everything behind it is missing, and nobody is told.

## What it looks at
Every header of the archive with its checksum, and the blocks of zeros that mark its end. What stands behind a place
that is no header is looked for and counted. Whether the other archives of the folder have an end mark, and how long;
how many samples they have; what the manifest says.

## Why it happens
Python's tarfile, and webdataset with it, reads header after header. A block of zeros, a header whose checksum is wrong,
half a header, or no header at all is the end to it: no exception, no warning, whatever the handler. A copy that was cut
between two members, a block that a disk or a network file system gave back as zeros, a flipped bit in a header: the
shard simply has fewer samples, in every epoch.

## What to do
Fetch or write the file again. Keep the number of samples of each shard in a manifest, and compare.

## How sure it is
Certain of the place, and that readers stop there. Samples that stand behind it are counted; where the file itself ends
there, the manifest or the siblings tell how many are missing. An archive that only lacks its end mark is told where it
stands alone, or where most of its siblings have one: some programs never write it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost
from ...analysis.data_series import long_tails
from ...analysis.data_wording import fetch, finding, named
from ...evidence.data import NO_END
from ...evidence.finding import Certainty, Finding, Symptom
from ..rule import rule

KINDS = ("tar-bad-header", "tar-early-end", "tar-cut-header", NO_END)


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = [*bad(case, *KINDS), *long_tails(case)]
    if found:
        remedy = fetch(case, found, _unseen(found))
        yield finding(case, found, f"{_where(found)}{_lost(case, found)}.", remedy)


def _where(found: list[Bad]) -> str:
    name, first = named([one.file for one in found], "archive"), found[0].first
    if len(found) > 1:
        return f"{name} are read as if they ended early"
    if first.kind in ("tar-bad-header", "tar-early-end", "zeros"):
        return f"Readers take byte {first.at or 0:,} of {name} for its end"
    how = "in the middle of a header" if first.kind == "tar-cut-header" else "without an end mark, between two members"
    if not found[0].file.whole:
        how = "without an end mark; only its end was read"
    return f"{name} ends at byte {found[0].file.size:,} {how}"


def _lost(case: Case, found: list[Bad]) -> str:
    loss = cost(case, found)
    if not all(one.file.whole for one in found):
        return f": {loss or 'what stood behind it is lost'}"
    if loss:
        return f": {loss}, and no reader says so"
    return ": if anything stood behind it, it is lost, and no reader says so"


def _unseen(found: list[Bad]) -> str:
    """What else is worth knowing of these kinds."""
    hidden = all(one.first.kind != "tar-bad-header" for one in found)
    text = "`tar -tf` does not show it. " if hidden else ""
    if any(one.lost for one in found):
        place = "that place" if len(found) == 1 else "such a place"
        text += f"What stands behind {place} can still be had: `tarfile.open(path, ignore_zeros=True)` reads on. "
    return text
