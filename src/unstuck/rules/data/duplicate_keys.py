"""The same sample is in the data twice: a key that comes back within a shard, or a shard under two names.

## What it looks at
The keys and parts of each archive in their order. And the size of each archive, its keys, and a digest of some bytes of
every member, which only a copy of it has, too.

## Why it happens
A writer was started again and appended to what it had written; shards of two runs were put into one folder; a shard was
copied under a further name, or into the folder of another split. Training sees these samples twice as often, and a
validation set that shares shards with the training set says nothing. Where the same part stands twice in a row,
webdataset raises `ValueError: duplicate file name in tar file`.

## What to do
Write the archive again without them; delete the copy.

## How sure it is
Certain of keys and parts within an archive. Two archives are called copies when they have the same size, begin with the
same keys, and all their members agree in the bytes of their middle; where more than half of all archives seem to be
copies, their content is too much alike to tell, and it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, base
from ...analysis.data_wording import LINES, again, finding, listing, named
from ...evidence.data import DataFile
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many
from ..rule import rule


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "tar-duplicate")
    if found:
        yield _within(case, found)
    copies = _copies(case)
    if copies:
        yield _under_two_names(case, copies)


def _within(case: Case, found: list[Bad]) -> Finding:
    total, name = sum(one.total for one in found), named([one.file for one in found], "archive")
    in_a_row = any(fault.member for one in found for fault in one.faults)  # else a key of its own, further down
    key, has = printable(found[0].first.sample), "has" if len(found) == 1 else "have"
    if in_a_row:
        cause = f"{name} {has} the same part of a sample twice in a row, first of {key}: webdataset raises a ValueError"
    elif total == 1:
        cause = f"{name} has the key {key} a second time: training sees that sample twice"
    else:
        cause = f"{name} {has} {total:,} keys a second time, first {key}: training sees these samples twice"
    return finding(
        case,
        found,
        f"{cause}.",
        Remedy(
            f"Write {listing([one.file for one in found])} again with every key once.",
            again(case, [one.file for one in found]),
        ),
        Symptom.CRASHED.value if in_a_row else "",
    )


def _copies(case: Case) -> list[list[DataFile]]:
    groups: dict[object, list[DataFile]] = {}
    for file in case.data.files if case.data is not None and not case.data.of_run else ():
        if file.alike and file.samples and file.whole:
            keys = tuple((one.first, one.at, one.samples) for one in file.groups)
            groups.setdefault((file.alike, file.size, keys), []).append(file)
    copied = [files for files in groups.values() if len(files) > 1]
    return copied if 2 * sum(len(files) - 1 for files in copied) <= sum(map(len, groups.values())) else []


def _under_two_names(case: Case, copies: list[list[DataFile]]) -> Finding:
    first, second = copies[0][:2]
    name = printable if base(first.path) == base(second.path) else base  # the same shard in two splits
    more = sum(len(files) - 1 for files in copies) - 1
    samples = sum((one.samples or 0) for files in copies for one in files[1:])
    others = f", and so {'is' if more == 1 else 'are'} {many(more, 'more file')} of others" if more else ""
    return case.finding(
        cause=f"{name(second.path)} is a copy of {name(first.path)}{others}: {many(samples, 'sample')} come twice.",
        seen=[
            f"{printable(files[0].path)} = {', '.join(printable(one.path) for one in files[1:4])}"
            for files in copies[:LINES]
        ]
        + ([f"and {many(len(copies) - LINES, 'more shard')} with copies"] if len(copies) > LINES else []),
        remedy=Remedy(
            f"Take {printable(second.path)} out of the data, or fetch what should stand there. If the two belong to "
            "different splits, keep it in one of them.",
            [f"cmp {quoted(first.path)} {quoted(second.path)} && echo the same"],
        ),
        subject=Subject("file", second.path),
    )
