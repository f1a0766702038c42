"""A file is shorter than it says itself: its end is missing.

## It means
A download or a copy was interrupted, the disk or a quota was full, the process that wrote the file was killed, or it is
still writing. The name is there, and the size looks plausible.

## Fix
Fetch or write the file again. Write files under another name and rename them when they are complete, so a half file is
never taken for a whole one:

```python
# before
np.savez("case-004.npz", scan=scan)
# after
with open("case-004.npz.tmp", "wb") as file:
    np.savez(file, scan=scan)
    file.flush()
    os.fsync(file.fileno())
os.replace("case-004.npz.tmp", "case-004.npz")
```

## Check it yourself
```sh
tail -c 4 part-00002.parquet                  # a whole parquet file ends with PAR1
unzip -t case-004.npz                         # npz and other zip files
gzip -t lines.jsonl.gz                        # gzip; zstd -t, bzip2 -t and xz -t for the others
tail -n 1 part-001.jsonl | python -m json.tool
```

## Not this, if
- it is a tar archive: [tar-truncated-loud](tar-truncated-loud.md), [tar-truncated-silent](tar-truncated-silent.md)
- the file is small and holds an error page or a Git LFS pointer: [not-the-data](not-the-data.md)
- the file has its length, and zeros at the end: [zeroed-blocks](zeroed-blocks.md)
- it is a checkpoint that did not fit on the disk: [checkpoint-disk-full](checkpoint-disk-full.md)

## How sure
Certain. It is judged from what a file says of its own length (the footer of a parquet file, the directory of an npz,
the shape in the header of an array, the end mark of a compressed file, the last line of JSON lines) and from where it
really ends. A file that is being written at this moment looks the same: its modification time tells.

## Seen in
- https://github.com/zilliztech/VectorDBBench/issues/199: `Parquet magic bytes not found in footer`; downloading the
  files again solved it
- https://github.com/elastacloud/parquet-dotnet/issues/435: a corrupt footer is what a file shows that is still written
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost, how_known
from ...analysis.data_wording import fetch, finding, named, skipped
from ...evidence.finding import Certainty, Finding, Symptom
from ..rule import rule

TEXTS = (
    "Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.",
    "Compressed file ended before the end-of-stream marker was reached",
    "File is not a zip file",
    "Failed to read all data for array",
    "mmap length is greater than file size",
)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "cut")
    if found:
        loss = cost(case, found) or f"{'its end is' if len(found) == 1 else 'their ends are'} missing"
        cause = f"{_where(found)}: {loss}."
        yield finding(case, found, cause, fetch(case, found), "", skipped(case), how_known(case, found))


def _where(found: list[Bad]) -> str:
    name = named([one.file for one in found])
    return f"{name} are truncated" if len(found) > 1 else f"{name} is truncated at byte {found[0].file.size:,}"
