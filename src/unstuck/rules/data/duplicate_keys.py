"""The same sample is in the data twice: a repeated key in a shard, or a shard under two names.

## It means
A writer was restarted and appended to what it had written, shards of two runs were put into one folder, or a shard was
copied under another name or into the folder of another split. Training sees these samples twice as often, and a
validation set that shares shards with the training set is worth nothing. Where the same file name repeats within one
sample, webdataset raises a ValueError instead.

## Fix
Write the archive again with every key once, or delete the copy. Writers should make a new file, never append:

```python
# before: a second run appends to the first
archive = tarfile.open("birds-2.tar", "a")
# after: a new file, renamed when it is complete
with tarfile.open("birds-2.tar.tmp", "w") as archive:
    ...
os.replace("birds-2.tar.tmp", "birds-2.tar")
```

## Check it yourself
```sh
tar -tf birds-2.tar | sort | uniq -d          # names that are in it twice
sha256sum train/*.tar val/*.tar | sort | uniq -w64 -D   # shards that are copies
```

## Not this, if
- a key comes back with other files, so each part of the sample is alone:
  [tar-keys-not-adjacent](tar-keys-not-adjacent.md)
- the data is fine, and every worker or rank reads all of it: [iterable-duplicated](iterable-duplicated.md)
- a sampler pads the last batch with repeated samples: [sampler-padding-duplicates](sampler-padding-duplicates.md)

## How sure
Certain of keys and parts within an archive: they are read in order. Two archives are called copies when they have the
same size, begin with the same keys, and all their members agree in the bytes of their middle. Where more than half of
all archives seem to be copies, their content is too much alike to tell, and it stays silent.

## Seen in
- https://github.com/webdataset/webdataset/issues/157: what the ValueError means: file names that repeat in a shard
- https://github.com/webdataset/webdataset/issues/205: the ValueError ended a training, and handlers did not catch it
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, base
from ...analysis.data_wording import LINES, finding, listing, named, once_more
from ...evidence.data import DataFile
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many
from ..rule import rule

TEXTS = ("duplicate file name in tar file",)


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
    key, plural = printable(found[0].first.sample), "" if len(found) > 1 else "s"
    if in_a_row:
        cause = f"{name} repeat{plural} a file name within one sample (first: {key}): webdataset raises ValueError"
    elif total == 1:
        cause = f"{name} contain{plural} the key {key} twice: that sample is trained on twice"
    else:
        cause = f"{name} contain{plural} {total:,} keys twice (first: {key}): those samples are trained on twice"
    files = [one.file for one in found]
    return finding(
        case,
        found,
        f"{cause}.",
        Remedy(f"Write {listing(files)} again with every key once.", once_more(case, files[0])),
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
    others = f" ({many(more, 'more copy')} found)" if more else ""
    return case.finding(
        cause=f"{name(second.path)} is a copy of {name(first.path)}{others}: {many(samples, 'sample')} "
        f"{'is' if samples == 1 else 'are'} in the data twice.",
        seen=[
            f"{printable(files[0].path)} = {', '.join(printable(one.path) for one in files[1:4])}"
            for files in copies[:LINES]
        ]
        + ([f"and {many(len(copies) - LINES, 'more shard')} with copies"] if len(copies) > LINES else []),
        remedy=Remedy(
            f"Compare the two, and remove {printable(second.path)} from the data, or fetch what belongs there.",
            [f"cmp {quoted(first.path)} {quoted(second.path)} && echo identical"],
        ),
        alternatives=[Remedy("Keep the shard in only one split, if the two files belong to different splits.")],
        subject=Subject("file", second.path),
        symptom=Symptom.BAD_DATA.value,
    )
