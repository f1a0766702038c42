"""The files of a sample are not next to each other in the archive, so webdataset splits the sample.

## It means
webdataset reads an archive once, from front to back, and begins a new sample wherever the key changes. `tar -cf` takes
files in the order in which the folder has them, several processes or threads that write one archive mix theirs, and
images first with labels after them is another way to it. There are then more samples than were written, each with some
of its files: a ValueError or KeyError at best, silence with `missing_is_error=False` or `.get`.

## Fix
Write the archive again in the order of the keys:

```sh
# before
tar -cf birds-1.tar -C birds .
# after (GNU tar)
tar --sort=name -cf birds-1.tar -C birds .
```

Or sort a copy by key, which keeps the order of the samples:

```python
import tarfile
with tarfile.open("birds-1.tar") as old, tarfile.open("sorted-birds-1.tar", "w") as new:
    order = {}  # of the keys, by their first file
    key = lambda file: order.setdefault(file.name[: file.name.find(".", file.name.rfind("/") + 1)], len(order))
    for file in sorted(old, key=key):
        new.addfile(file, old.extractfile(file))
```

## Check it yourself
This prints the keys that begin more than once:

```sh
tar -tf birds-1.tar | sed 's/[.][^/]*$//' | uniq | sort | uniq -d
```

## Not this, if
- a key comes back with the same files: [duplicate-keys](duplicate-keys.md)
- the missing file is nowhere in the archive: [sample-parts-missing](sample-parts-missing.md)
- samples are lost because a handler skips the rest of a damaged shard:
  [handler-drops-shard-rest](handler-drops-shard-rest.md)

## How sure
Certain: the same key was met twice, with different files. It is judged from the order of the members: which of them
have the same name up to its first dot, and whether others are between them. A key that comes back with the same files
is a duplicate, not this.

## Seen in
- https://github.com/webdataset/webdataset/issues/140: samples with a caption and no image, because the tar was not
  sorted
- https://github.com/webdataset/webdataset/issues/258: the wav and the json of one key came as two samples
- https://github.com/ray-project/ray/pull/63407: ray.data raises a ValueError for such archives since 2026
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import bad, base
from ...analysis.data_wording import finding, named, once_more, skipped
from ...evidence.data import DataFile
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import printable
from ...wording.text import many
from ..rule import rule

TEXTS = ("ValueError: didn't find",)
SORT = (
    "with tarfile.open({old!r}) as old, tarfile.open({new!r}, {mode!r}) as new:",
    "    order = {{}}  # of the keys, by their first file",
    '    key = lambda file: order.setdefault(file.name[: file.name.find(".", file.name.rfind("/") + 1)], len(order))',
    "    for file in sorted(old, key=key):",
    "        new.addfile(file, old.extractfile(file))",
)
MODES = {"": "w", "gzip": "w:gz", "bzip2": "w:bz2", "xz": "w:xz"}


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "tar-apart")
    if found:
        total, name = sum(one.total for one in found), named([one.file for one in found], "archive")
        key, file = printable(found[0].first.sample), found[0].file
        cause = (
            f"{name}: files of {many(total, 'sample')} are not adjacent (first: {key}), so webdataset splits "
            f"{'it' if total == 1 else 'each'} in two."
        )
        remedy = Remedy(
            "Write these archives again with the files of each sample next to each other: GNU `tar --sort=name`.",
            once_more(case, file),
        )
        yield finding(case, found, cause, remedy, "", [*_sorted(file), *skipped(case)])


def _sorted(file: DataFile) -> list[Remedy]:
    if file.compression not in MODES:
        return []
    names = {"old": file.path, "new": f"sorted-{base(file.path)}", "mode": MODES[file.compression]}
    code = ["import tarfile", *(line.format(**names) for line in SORT)]
    return [Remedy("Sort a copy by key, which keeps the order of the samples:", code=code)]
