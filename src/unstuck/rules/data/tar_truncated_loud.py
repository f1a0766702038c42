"""A tar archive is cut off inside one of its files: reading that far raises an error.

## It means
A download or a copy was interrupted, the disk or a quota was full while the archive was written, or the process that
wrote it was killed. The file looks like any other until a reader comes to its end: Python's tarfile and webdataset then
raise `ReadError: unexpected end of data`, hours into the run, and again in every epoch.

## Fix
Fetch or write the file again. Let a download continue or fail, and rename the file when it is complete:

```sh
curl --fail --location --continue-at - --output 000022.tar.tmp "$URL" && mv 000022.tar.tmp 000022.tar
```

A handler such as `wds.warn_and_continue` does not skip one sample there: it skips the rest of the shard.

## Check it yourself
```sh
tar -tf 000022.tar > /dev/null; echo $?       # 2, and "Unexpected EOF in archive"
```

## Not this, if
- no error is raised, and samples are missing: [tar-truncated-silent](tar-truncated-silent.md)
- the error was swallowed by a handler: [handler-drops-shard-rest](handler-drops-shard-rest.md)
- the archive is compressed, and its compressed data ends too early: [file-truncated](file-truncated.md)

## How sure
Certain that the file ends before its data does. It is judged from every header of the archive, and whether all the data
that it declares is there. How many samples are lost is counted by the manifest, where there is one; by the other
archives of the series it is an estimate, and said to be one.

## Seen in
- https://github.com/webdataset/webdataset/issues/142: `unexpected end of data` from one shard of a large training
- https://github.com/JoeLeelyf/OVO-Bench/issues/18: the same while `datasets` read a webdataset from the Hub
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, cost, how_known
from ...analysis.data_wording import fetch, finding, named, skipped
from ...evidence.finding import Certainty, Finding, Symptom
from ..rule import rule

TEXTS = ("unexpected end of data",)
RAISES = "reading that far raises tarfile.ReadError: unexpected end of data"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "tar-cut-data")
    if found:
        loss = cost(case, found) or "what followed is lost, too"
        cause = f"{_where(found)}: {loss}."
        yield finding(case, found, cause, fetch(case, found), "", skipped(case), [RAISES, *how_known(case, found)])


def _where(found: list[Bad]) -> str:
    first, name = found[0].first, named([one.file for one in found], "archive")
    if len(found) > 1:
        return f"{name} are truncated"
    inside = f", inside {first.member}" if first.member else ""
    return f"{name} is truncated at byte {found[0].file.size:,}{inside}"
