"""The data is not what its manifest says: other counts, other sizes, other content, or files that are not there.

## What it looks at
For each file the manifest's number of samples, size and checksums, beside what was read; files that it lists and that
are not there; its total, where it has no counts of single files.

## Why it happens
The data was written again, or some of it, and the manifest is of before; a copy is not complete; a file was altered by
somebody or something since. Loaders that take lengths from the manifest then end epochs too early, or wait for samples
that never come.

## What to do
Find out which of the two is right. If the data is, write the manifest again: `--write-manifest`. If the manifest is,
fetch those files again.

## How sure it is
Certain that the two disagree. Files with damage that explains it are left out here: that is told by itself. What was
only looked at in parts (`--sample`) is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.data_files import absent, bad, base, incomplete, listed
from ...analysis.data_wording import LINES, once_more, place, the_same
from ...evidence.data import Data, DataFile, Listed
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many
from ..rule import rule


class Differs(NamedTuple):
    """One file, and how many samples that concerns."""

    path: str
    what: str
    samples: int = 0
    absent: bool = False


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    data = case.data
    if data is None or data.of_run:
        return
    entries, left_out = listed(case), incomplete(case)
    content = {one.file.path for one in bad(case, "manifest")}
    found = [Differs(one.path, "is not there", one.samples or 0, absent=True) for one in absent(case)]
    for file in data.files:
        if file.path not in left_out:
            found += _of_file(file, entries.get(file.path), altered=file.path in content)
    if found:
        yield _finding(case, data, sorted(found, key=lambda one: (not one.absent, -one.samples)))
    elif data.manifest is not None and not left_out:
        yield from _total(case, data, entries)


def _of_file(file: DataFile, entry: Listed | None, *, altered: bool) -> Iterator[Differs]:
    if entry is not None and entry.samples is not None and file.whole and file.samples not in (None, entry.samples):
        less = abs((file.samples or 0) - entry.samples)
        yield Differs(file.path, f"has {many(file.samples or 0, 'sample')}, the manifest {entry.samples:,}", less)
    elif altered:
        faults = [one for one in file.faults if one.kind == "manifest"]
        total = file.counts.get("manifest", len(faults))
        more = f", and {many(total - 1, 'more place')}" if total > 1 else ""
        yield Differs(file.path, f"was altered: {place(faults[0])}{more}", sum(one.lost or 0 for one in faults))
    elif entry is not None and entry.size not in (None, file.size):
        yield Differs(file.path, f"has {many(file.size, 'byte')}, the manifest {entry.size:,}")


def _finding(case: Case, data: Data, found: list[Differs]) -> Finding:
    first, count, total = found[0], len(found), len(data.manifest.files) if data.manifest is not None else 0
    name = base(data.manifest.path) if data.manifest is not None else "the manifest"
    of = f" of {total:,}" if total >= count else ""
    samples = sum(one.samples for one in found)
    about = f" ({many(samples, 'sample')} in all)" if samples and count > 1 else ""
    if data.manifest is not None and first.path == data.manifest.path:
        cause = f"{name} {first.what}."
    elif count == 1:
        cause = f"{base(first.path)} is not as {name} says: it {first.what}."
    else:
        cause = f"{count:,}{of} files are not as {name} says{about}: {base(first.path)} {first.what}."
    lines = [f"{printable(one.path)} {one.what}" for one in found[:LINES]]
    return case.finding(
        cause=cause,
        seen=[*lines, f"and {many(count - LINES, 'more file')}"] if count > LINES else lines,
        remedy=_remedy(case, data, found),
        subject=Subject("file", first.path),
        symptom=Symptom.CRASHED.value if first.absent else "",
    )


def _remedy(case: Case, data: Data, found: list[Differs]) -> Remedy:
    files = {one.path: one for one in data.files}
    worst = files.get(found[0].path)
    path = data.manifest.path if data.manifest is not None else "manifest.jsonl"
    return Remedy(
        "If the manifest is right, fetch these files again. If the data is right, write a manifest anew with "
        "--write-manifest, and keep the old one.",
        [
            *(once_more(case, worst) if worst is not None else [f"ls -l {quoted(found[0].path)}"]),
            f"{the_same(case)} --write-manifest {quoted(f'{path}.new')}",
        ],
    )


def _total(case: Case, data: Data, entries: dict[str, Listed]) -> Iterator[Finding]:
    """Only where all of what it lists was read to its end."""
    manifest = data.manifest
    if manifest is None or manifest.samples is None or len(entries) < len(manifest.files) or data.stopped:
        return
    own = [one for one in data.files if one.path in entries or (not entries and one.format)]
    if not own or any(one.unread or not one.whole or one.samples is None for one in own):
        return
    samples = sum(one.samples or 0 for one in own)
    if samples != manifest.samples:
        what = f"counts {many(manifest.samples, 'sample')}, and {many(len(own), 'file')} have {samples:,}"
        yield _finding(case, data, [Differs(manifest.path, what)])
