"""A file contradicts itself or its own checksums: its bytes are not what was written.

## It means
Storage or memory flipped bits, a copy was put together from two versions, a file was written to while it was copied, a
transfer was in text mode, or two processes wrote to one file. Libraries notice it when they come to that place, if they
check at all: parquet pages and many arrays carry no checksum.

## Fix
Fetch or write the file again. If it comes back corrupt, compare checksums at both ends of the way it takes:

```sh
sha256sum case-004.npz                        # where training reads it
ssh storage sha256sum /export/case-004.npz    # where it comes from
rsync --checksum storage:/export/case-004.npz case-004.npz
```

## Check it yourself
```sh
unzip -t case-004.npz                         # npz and other zip files
gzip -t lines.jsonl.gz                        # gzip; zstd -t, bzip2 -t and xz -t for the others
python -c 'import sys, pyarrow.parquet as pq; pq.read_table(sys.argv[1])' part-00002.parquet
```

## Not this, if
- the end of the file is missing: [file-truncated](file-truncated.md)
- it is another kind of file altogether, such as an error page: [not-the-data](not-the-data.md)
- it has zeros where data should be: [zeroed-blocks](zeroed-blocks.md)
- the damage is in the headers of a tar archive, which readers take for its end:
  [tar-truncated-silent](tar-truncated-silent.md)

## How sure
Certain that what is there cannot be what was meant. It is judged from all of the file, decompressed and decoded as its
format wants it: checksums where it has some, headers and footers, sizes and offsets that must agree, pages that must
decode. Where a format has no checksums, a changed number looks like any other number: that is found only with a
manifest of the whole data (`--write-manifest`, `--against`).

## Seen in
- https://github.com/mengyuest/TeLoGraF/issues/2: an npz that was corrupt at its source: `unzip -t` said `bad CRC`
- https://github.com/bmaltais/kohya_ss/issues/3155: a training ended with `Bad CRC-32 for file`, over a cached npz
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost, how_known
from ...analysis.data_wording import fetch, finding, named, skipped
from ...evidence.finding import Certainty, Finding, Symptom
from ...wording.text import many
from ..rule import rule

TEXTS = ("Bad CRC-32 for file", "CRC check failed", "Couldn't deserialize thrift", "Error -3 while decompressing data")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "damaged")
    if found:
        loss = cost(case, found) or "its bytes are not what was written"
        cause = f"{_where(found)}: {loss}."
        yield finding(case, found, cause, fetch(case, found), "", skipped(case), how_known(case, found))


def _where(found: list[Bad]) -> str:
    name, total, first = named([one.file for one in found]), sum(one.total for one in found), found[0].first
    if len(found) > 1:
        return f"{name} are corrupt"
    at = f" at byte {first.at:,}" if first.at is not None else f" from row {first.row:,} on" if first.row else ""
    inside = f", in {first.member}" if first.member else ""
    more = f" and in {many(total - 1, 'other place')}" if total > 1 else ""
    return f"{name} is corrupt{at}{inside}{more}"
