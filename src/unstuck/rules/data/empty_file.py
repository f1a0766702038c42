"""A data file holds nothing: no bytes, no rows, no members.

## It means
A job opened its output and died, the disk was full, a download failed after the file was created, a filter left
nothing, or one of many partitions got no row. Most readers raise an error on a file of 0 bytes. A file with a header
and no rows is worse: it is read silently, and a loader that loops until it has enough samples loops forever where all
files are like that.

## Fix
Write or fetch the file again, or remove it from the list. Fail on an error of the download instead of keeping what
came:

```sh
curl --fail --location --output part-00003.parquet.tmp "$URL" && mv part-00003.parquet.tmp part-00003.parquet
```

## Check it yourself
```sh
find data/ -type f -size 0                    # files of 0 bytes
```

```python
import glob, pyarrow.parquet as pq

print([path for path in glob.glob("data/*.parquet") if not pq.ParquetFile(path).metadata.num_rows])
```

## Not this, if
- the file has bytes, and they stop too early: [file-truncated](file-truncated.md)
- the file is not there at all: [shard-missing](shard-missing.md)
- the file has rows, and their text is empty: [blank-texts](blank-texts.md)

## How sure
Certain. It is judged from the size of each file that is data by its name, and from the rows, members or arrays of those
that have bytes. Whether nothing is what it was meant to hold, only you know. Empty files that are no data by their
name, such as `_SUCCESS`, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost, how_known
from ...analysis.data_wording import fetch, finding, named, skipped
from ...evidence.finding import Certainty, Finding, Symptom
from ..rule import rule

TEXTS = ("Parquet file size is 0 bytes", "No data left in file", "ReadError: empty file")
QUIET = ("jsonl", "text", "")  # formats of which an empty file is a valid one


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = [one for one in bad(case, "empty", "no-rows") if one.file.format]
    found.sort(key=_raises, reverse=True)
    if found:
        loss, loud = cost(case, found, "missing"), _raises(found[0])
        then = "reading raises an error" if loud else "training silently gets nothing from there"
        yield finding(
            case,
            found,
            f"{_what(found)}: {then}{', and ' if loss else ''}{loss}.",
            fetch(case, found),
            Symptom.CRASHED.value if loud else "",
            skipped(case),
            how_known(case, found),
        )


def _raises(one: Bad) -> bool:
    return one.first.kind == "empty" and one.file.format not in QUIET


def _what(found: list[Bad]) -> str:
    name, first = named([one.file for one in found]), found[0].first
    if len(found) > 1:
        return f"{name} are empty"
    return f"{name} is empty (0 bytes)" if first.kind == "empty" else f"{name} has no samples"
