r"""A file has zeros where its data should be: a part of it was never written, or was lost.

## It means
A machine that went down before its page cache was on the disk leaves files of the right length with zeros in them. So
do downloads that reserve the whole file first and are interrupted, sparse copies, and storage that gives back zeros for
a block it has lost. Sizes agree, archives can be listed, and Pillow silently shows many such images, grey from there
on: training continues with them.

## Fix
Fetch or write the file again, and check others of the same time: such damage rarely comes alone. Have a writer flush to
the disk before it renames its file:

```python
# before
with open("leaves-1.tar", "wb") as file:
    write(file)
# after
with open("leaves-1.tar.tmp", "wb") as file:
    write(file)
    file.flush()
    os.fsync(file.fileno())
os.replace("leaves-1.tar.tmp", "leaves-1.tar")
```

## Check it yourself
This prints where the longest run of zeros is:

```python
import re

data = open("leaves-1.tar", "rb").read()
longest = max(re.finditer(rb"\x00{512,}", data), key=lambda run: len(run[0]), default=None)
print(longest and (longest.start(), len(longest[0])))
```

Compare with the source: `cmp leaves-1.tar /mnt/source/leaves-1.tar`. Padding at the end of a tar archive is normal.

## Not this, if
- the zeros are between the members of a tar archive, and what follows is lost:
  [tar-truncated-silent](tar-truncated-silent.md)
- the bytes are wrong, but not zero: [file-damaged](file-damaged.md)
- one image cannot be decoded at all: [corrupt-image-sample](corrupt-image-sample.md)

## How sure
Certain that the zeros are there, and that this kind of data has none in that place. It is judged from runs of zeros
where there cannot be any: 512 bytes of the compressed data of an image, 16 of text, in lines of JSON. Padding and
metadata are not meant.

## Seen in
- https://github.com/openzfs/zfs/issues/15526: copied files with chunks replaced by zeros, by a bug of the file system
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad
from ...analysis.data_wording import fetch, finding, named, skipped
from ...evidence.finding import Certainty, Finding, Symptom
from ...wording.text import many
from ..rule import rule

JSON, TABLES = ("jsonl", "json"), ("parquet", "arrow")


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "zeros")
    if found:
        name, have = named([one.file for one in found]), "has" if len(found) == 1 else "have"
        cause = f"{name} {have} zeros instead of data {_first(found)}: {_lost(found)}."
        symptom = Symptom.CRASHED.value if _raises(found[0]) else ""
        yield finding(case, found, cause, fetch(case, found), symptom, skipped(case))


def _raises(one: Bad) -> bool:
    """Tables lose their index by it, and no JSON has a zero; a text in a row, or an image, only looks strange."""
    return one.file.format in JSON or (one.file.format in TABLES and one.first.row is None)


def _first(found: list[Bad]) -> str:
    fault = found[0].first
    at = f"byte {fault.at:,}" if fault.at is not None else "one place"
    inside = f" in {fault.member}" if fault.member else ""
    more = sum(one.total for one in found) - 1
    return f"at {at}{inside}" + (f" and in {many(more, 'other place')}" if more else "")


def _lost(found: list[Bad]) -> str:
    lost = sum(one.lost or 0 for one in found)
    return f"{many(lost, 'sample')} {'is' if lost == 1 else 'are'} corrupt" if lost else "that part is lost"
