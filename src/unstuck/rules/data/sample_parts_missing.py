"""Some samples lack a part that nearly all others have: a loader that asks for it raises.

## What it looks at
Which parts (the endings of a key's files) the samples of all archives of a series have, and how many have which.

## Why it happens
A caption that could not be fetched, a file that was filtered out while its partner stayed, a name with one dot more, a
writer that was stopped in the middle of a sample, a stray file (an index, a README) that webdataset takes for a sample
of its own. `.to_tuple("jpg", "txt")` then raises, and so does `sample["txt"]` in a map.

## What to do
Write these samples again with all their parts, or leave them out on purpose: `.select(lambda sample: "txt" in sample)`
in front of what asks for it.

## How sure it is
Certain of what is there. That a part belongs to every sample is concluded where at least 90 % have it; below, it is
taken to be optional. Archives with damage that explains it are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ...model.checked import DataFile, Group
from ...model.data_names import base, folder_of, pattern_of, quoted, shown
from ...model.data_words import LINES
from ...model.evidence import Evidence
from ...model.faults import incomplete
from ...model.finding import Finding, Remedy, Subject, Symptom
from ...model.phrases import many, percent
from ...model.rule import rule

SERIES = 4  # of which it is told
NEARLY_ALL = 0.9  # of the samples: a part that fewer have is optional


class Lacking(NamedTuple):
    """Samples of one archive that lack parts."""

    file: DataFile
    group: Group
    missing: list[str]


@rule(explains=Symptom.CRASHED, needs=("data",))
def check(evidence: Evidence) -> Iterator[Finding]:
    folders: dict[tuple[str, str], list[DataFile]] = {}
    if evidence.data is None or evidence.data.of_run:
        return
    damaged = incomplete(evidence)
    for file in evidence.data.files:
        if file.groups and file.path not in damaged:
            folders.setdefault((folder_of(file.path), pattern_of(file.path)), []).append(file)
    found = [(files, own) for files in folders.values() if (own := _lacking(files))]
    for files, own in sorted(found, key=lambda each: -sum(one.group.samples for one in each[1]))[:SERIES]:
        yield _finding(own, _samples(files))


def _samples(files: list[DataFile]) -> int:
    return sum(group.samples for file in files for group in file.groups)


def _lacking(files: list[DataFile]) -> list[Lacking]:
    """The most first."""
    total, have = _samples(files), Counter[str]()
    for file in files:
        for group in file.groups:
            have.update(dict.fromkeys(group.parts, group.samples))
    wanted = sorted(part for part, count in have.items() if NEARLY_ALL * total <= count < total)
    found = [
        Lacking(file, group, missing)
        for file in files
        for group in file.groups
        if (missing := [part for part in wanted if part not in group.parts])
    ]
    return sorted(found, key=lambda one: -one.group.samples)


def _finding(found: list[Lacking], total: int) -> Finding:
    count, files = sum(one.group.samples for one in found), list({one.file.path: one.file for one in found}.values())
    parts = sorted({part for one in found for part in one.missing})
    where = base(files[0].path) if len(files) == 1 else f"{len(files)} archives"
    return Finding(
        cause=f"{count:,} of {many(total, 'sample')} in {folder_of(files[0].path) or '.'} lack {_dotted(parts)}, which "
        f"{percent((total - count) / total)} have (in {where}): a loader that asks for it raises.",
        seen=list(_seen(found)),
        remedy=_remedy(found[0], parts),
        subject=Subject("file", files[0].path),
    )


def _dotted(parts: list[str]) -> str:
    return " and ".join(f".{shown(one)}" for one in parts[:4])


def _seen(found: list[Lacking]) -> Iterator[str]:
    for one in found[:LINES]:
        at = f", at byte {one.group.at:,}" if one.group.at is not None else ""
        has = _dotted(one.group.parts) or "nothing"
        times = f"{many(one.group.samples, 'sample')} with {has} only, first {shown(one.group.first)}{at}"
        yield f"{shown(one.file.path)}: {times}"
    if len(found) > LINES:
        yield f"and {many(sum(one.group.samples for one in found[LINES:]), 'more sample')} like these"


def _remedy(worst: Lacking, parts: list[str]) -> Remedy:
    test = " and ".join(f'"{shown(one)}" in sample' for one in parts[:4])
    look = f"tar -tvf {quoted(worst.file.path)} | grep -F {quoted(f'{worst.group.first}.')}"
    return Remedy(
        "Write them again with all their parts. Or leave them out on purpose, before anything asks for it: "
        f"`.select(lambda sample: {test})`.",
        [look] if worst.group.first else [],
    )
