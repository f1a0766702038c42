"""Readers take a damaged place in a tar archive for its end: the samples after it are silently lost.

## It means
Python's tarfile, and webdataset with it, reads header after header. A block of zeros, a header whose checksum is wrong,
half a header, or no header at all is the end to it: no exception, no warning, whatever the handler. A copy that was cut
between two members, a block that a disk or a network file system gave back as zeros, a flipped bit in a header: the
shard simply has fewer samples, in every epoch.

## Fix
Fetch or write the file again. Where samples follow the damage, they can be recovered until then:

```python
# before
archive = tarfile.open("songs-000005.tar")
# after: reads on behind zeros and bad headers
archive = tarfile.open("songs-000005.tar", ignore_zeros=True)
```

Keep the number of samples of each shard in a manifest, and compare (`unstuck check data/ --write-manifest FILE`).

## Check it yourself
`tar -tf` ends with 0 in most of these cases. This compares what tarfile reads with what is there, and prints how the
archive ends; a whole one ends with at least 1,024 zeros:

```python
import tarfile

path = "songs-000005.tar"
print(len(tarfile.open(path).getnames()), len(tarfile.open(path, ignore_zeros=True).getnames()))
print(open(path, "rb").read()[-1024:].strip(bytes(1)) == b"")
```

## Not this, if
- reading raises `unexpected end of data`: [tar-truncated-loud](tar-truncated-loud.md)
- a warning of a handler comes with each epoch: [handler-drops-shard-rest](handler-drops-shard-rest.md)
- the archive is whole, and simply shorter than the others: [shard-size-outlier](shard-size-outlier.md)

## How sure
Certain of the place, and that readers stop there. It is judged from every header of the archive with its checksum, from
what follows a place that is no header, from whether the other archives of the folder have an end mark, and how long.
Samples that follow the place are counted; where the file itself ends there, the manifest or the siblings tell how many
are missing. An archive that only lacks its end mark is reported where it is alone, or where most of its siblings have
one: some programs never write it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost, how_known
from ...analysis.data_series import long_tails
from ...analysis.data_wording import fetch, finding, named, skipped
from ...evidence.data import NO_END
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ..rule import rule

OPENED = ("", "gzip", "bzip2", "xz")  # compression that every tarfile can read
KINDS = ("tar-bad-header", "tar-early-end", "tar-cut-header", NO_END)


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = [*bad(case, *KINDS), *long_tails(case)]
    if found:
        recovered = _recovered(found)
        cause = f"{_where(found)}: {_lost(case, found)}."
        others = [*recovered, *skipped(case)]
        yield finding(case, found, cause, fetch(case, found), "", others, [*_hidden(found), *how_known(case, found)])


def _where(found: list[Bad]) -> str:
    name, first = named([one.file for one in found], "archive"), found[0].first
    if len(found) > 1:
        return f"{name} are silently truncated"
    if first.kind in ("tar-bad-header", "tar-early-end", "zeros"):
        what = "a corrupt header" if first.kind == "tar-bad-header" else "zeros"
        return f"{name} is silently cut off by {what} at byte {first.at or 0:,}"
    size = found[0].file.size
    if first.kind == "tar-cut-header":
        return f"{name} is silently truncated at byte {size:,}, inside a header"
    return f"{name} ends at byte {size:,} without an end mark"


def _lost(case: Case, found: list[Bad]) -> str:
    loss = cost(case, found, "never read")
    if loss:
        return loss
    whole = all(one.file.whole for one in found)
    return "if anything followed, it is silently lost" if whole else "what followed is silently lost"


def _hidden(found: list[Bad]) -> list[str]:
    told = ["only the end of it was read (--sample)"] if not found[0].file.whole else []
    return told if any(one.first.kind == "tar-bad-header" for one in found) else [*told, "`tar -tf` does not report it"]


def _recovered(found: list[Bad]) -> list[Remedy]:
    """Where it can be read on behind the damage."""
    paths = [one.file.path for one in found if one.lost and one.file.compression in OPENED]
    if not paths:
        return []
    code = [f"archive = tarfile.open({paths[0]!r}, ignore_zeros=True)"]
    return [Remedy("Recover what follows the damage, if there is no good copy: this reads on after it.", code=code)]
