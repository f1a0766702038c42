"""The data is not what its manifest says: other counts, sizes or content, or missing files.

## It means
Some of the data was written again and the manifest is older, a copy is not complete, or a file was altered since.
Loaders that take lengths from the manifest then end epochs too early, or wait for samples that never come.

## Fix
Find out which of the two is right. If the manifest is, fetch those files again. If the data is, write the manifest
again:

```sh
unstuck check data/ --write-manifest data/manifest.jsonl.new
diff data/manifest.jsonl data/manifest.jsonl.new
```

## Check it yourself
```sh
sha256sum --check --quiet SHA256SUMS          # for a list of checksums
tar -tf birds-000003.tar | sed 's/[.][^/]*$//' | sort -u | wc -l      # samples of one webdataset shard
ls data/*.tar | wc -l                         # files that are there
```

## Not this, if
- no manifest lists the file, and its series has a gap: [shard-missing](shard-missing.md)
- the file is damaged, which explains that it has fewer samples: [tar-truncated-silent](tar-truncated-silent.md),
  [file-truncated](file-truncated.md)
- the data is complete, and the loader's length is wrong: [iterable-length-lies](iterable-length-lies.md)

## How sure
Certain that the two disagree. It is judged from the manifest's number of samples, size and checksums of each file, next
to what was read; from files that it lists and that are missing; and from its total, where it has no counts of single
files. Files with damage that explains the difference are left to the rule for that damage. What was only looked at in
parts (`--sample`) is not counted.
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
    found = [Differs(one.path, "is missing", one.samples or 0, absent=True) for one in absent(case)]
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
        yield Differs(file.path, f"has {many(file.samples or 0, 'sample')} instead of {entry.samples:,}", less)
    elif altered:
        faults = [one for one in file.faults if one.kind == "manifest"]
        total = file.counts.get("manifest", len(faults))
        more = f", and {many(total - 1, 'more place')}" if total > 1 else ""
        yield Differs(file.path, f"was altered: {place(faults[0])}{more}", sum(one.lost or 0 for one in faults))
    elif entry is not None and entry.size not in (None, file.size):
        yield Differs(file.path, f"has {many(file.size, 'byte')} instead of {entry.size:,}")


def _finding(case: Case, data: Data, found: list[Differs]) -> Finding:
    first, count, total = found[0], len(found), len(data.manifest.files) if data.manifest is not None else 0
    name = base(data.manifest.path) if data.manifest is not None else "the manifest"
    of = f" of {total:,}" if total >= count else ""
    samples = sum(one.samples for one in found)
    about = [f"these files differ by {many(samples, 'sample')}"] if samples and count > 1 else []
    if data.manifest is not None and first.path == data.manifest.path:
        cause = f"{name} {first.what}."
    elif count == 1:
        cause = f"{base(first.path)} does not match {name}: it {first.what.partition(': ')[0]}."
    elif first.absent:
        cause = f"{count:,}{of} files do not match {name}: {base(first.path)} is missing."
    else:
        cause = f"{count:,}{of} files do not match {name}; the worst is {base(first.path)}."
    lines = [f"{printable(one.path)} {one.what}" for one in found[:LINES]]
    lines += [f"and {many(count - LINES, 'more file')}"] if count > LINES else []
    remedy, *others = _ways_out(case, data, found)
    return case.finding(
        cause=cause,
        seen=[*lines, *about],
        remedy=remedy,
        alternatives=others,
        subject=Subject("file", first.path),
        symptom=Symptom.BAD_DATA.value,
    )


def _ways_out(case: Case, data: Data, found: list[Differs]) -> Iterator[Remedy]:
    files = {one.path: one for one in data.files}
    worst = files.get(found[0].path)
    path = data.manifest.path if data.manifest is not None else "manifest.jsonl"
    look = once_more(case, worst) if worst is not None else []
    yield Remedy("Fetch these files again, if the manifest is right.", look)
    new = f"{the_same(case)} --write-manifest {quoted(f'{path}.new')}"
    yield Remedy("Write a new manifest, if the data is right, and keep the old one.", [new])


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
        what = f"counts {many(manifest.samples, 'sample')}, but its files have {samples:,}"
        yield _finding(case, data, [Differs(manifest.path, what)])
