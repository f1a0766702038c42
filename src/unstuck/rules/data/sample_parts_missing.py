"""Some samples lack a part that nearly all others have: a loader that asks for it raises.

## What it looks at
Which parts (the endings of a key's files) the samples of all archives of a series have, and how many have which.

## Why it happens
A caption that could not be fetched, a file that was filtered out while its partner stayed, a name with one dot more, a
writer that was stopped in the middle of a sample, a stray file (an index, a README) that webdataset takes for a sample
of its own. `.to_tuple("jpg", "txt")` then raises, and so does `sample["txt"]` in a map.

## What to do
Write these samples again with all their parts, or leave them out on purpose: `.select(lambda sample: "txt" in sample)`
in front of what asks for it; `--quarantine` lists them.

## How sure it is
Certain of what is there. That a part belongs to every sample is concluded where at least 90 % have it; below, it is
taken to be optional. Archives with damage that explains it are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Lacking, archive_series, base, folder_of, incomplete
from ...analysis.data_wording import LINES
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many
from ..rule import rule

SERIES = 4  # of which it is told


@rule(explains=Symptom.CRASHED, certainty=Certainty.LIKELY, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    if case.data is None or case.data.of_run:
        return
    damaged = incomplete(case)
    for one in archive_series(file for file in case.data.files if file.path not in damaged)[:SERIES]:
        yield _finding(case, one.lacking, one.samples)


def _finding(case: Case, found: list[Lacking], total: int) -> Finding:
    count, files = sum(one.group.samples for one in found), list({one.file.path: one.file for one in found}.values())
    parts = sorted({part for one in found for part in one.missing})
    where = base(files[0].path) if len(files) == 1 else f"{len(files)} archives"
    return case.finding(
        cause=f"{count:,} of {many(total, 'sample')} in {folder_of(files[0].path) or '.'} lack {_dotted(parts)}, which "
        f"the other {total - count:,} have (in {where}): a loader that asks for it raises.",
        seen=list(_seen(found)),
        remedy=_remedy(found[0], parts),
        subject=Subject("file", files[0].path),
    )


def _dotted(parts: list[str]) -> str:
    return " and ".join(f".{printable(one)}" for one in parts[:4])


def _seen(found: list[Lacking]) -> Iterator[str]:
    for one in found[:LINES]:
        at = f", at byte {one.group.at:,}" if one.group.at is not None else ""
        has = _dotted(one.group.parts) or "nothing"
        times = f"{many(one.group.samples, 'sample')} with {has} only, first {printable(one.group.first)}{at}"
        yield f"{printable(one.file.path)}: {times}"
    if len(found) > LINES:
        yield f"and {many(sum(one.group.samples for one in found[LINES:]), 'more sample')} like these"


def _remedy(worst: Lacking, parts: list[str]) -> Remedy:
    test = " and ".join(f'"{printable(one)}" in sample' for one in parts[:4])
    look = f"tar -tvf {quoted(worst.file.path)} | grep -F {quoted(f'{worst.group.first}.')}"
    return Remedy(
        "Write them again with all their parts. Or leave them out on purpose, before anything asks for it: "
        f"`.select(lambda sample: {test})`.",
        [look] if worst.group.first else [],
    )
