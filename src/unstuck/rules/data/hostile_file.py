r"""A file harms what reads or unpacks it: a bomb, a path that leads outside, a name that lies.

## It means
Either it was made so on purpose, or a damaged length asks for terabytes. A loader that decompresses a bomb into memory
is killed. One that unpacks members by their names (`tar.extractall` without a filter) writes where it should not.
Control characters in a name change what a terminal or a log shows.

## Fix
Do not unpack the file, and do not train on it before you know where it comes from. `unstuck` has unpacked none of it.
If an archive has to be unpacked, use the filter that raises an error on such members:

```python
# before
tarfile.open("birds-1.tar").extractall("birds")
# after (Python 3.12; backported to 3.11.4 and 3.10.12)
tarfile.open("birds-1.tar").extractall("birds", filter="data")
```

## Check it yourself
```sh
tar -tvf birds-1.tar | grep -E ' /| \.\./|/\.\./|->'     # absolute names, names that lead up, links
unzip -l case-004.npz                                    # sizes after unpacking
ls -b data/                                              # control characters in names, escaped
```

## Not this, if
- a length or a checksum in the file is wrong, without such claims: [file-damaged](file-damaged.md)
- a worker was killed for its memory, and the files are fine: [worker-oom-killed](worker-oom-killed.md)

## How sure
Certain of what is there. It is judged from how much a compressed file gives for how little, from sizes that are
declared against what is there, and from names and links of members that are absolute, lead up with `..` or hold control
characters. Archives of a whole file system hold absolute names without any bad intention. Only files that were checked
are reported, not those a run had trouble with: no run fails because of a name.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import bad
from ...analysis.data_wording import finding, listing, named, skipped
from ...evidence.data import DataFile
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many
from ..rule import rule

TEXTS = ("could be decompression bomb DOS attack", "which is outside the destination")


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "hostile")
    if found and case.data is not None and not case.data.of_run:  # no run fails of a name
        files, total = [one.file for one in found], sum(one.total for one in found)
        more = f" (and {many(total - 1, 'more place')})" if total > 1 else ""
        are = "is" if len(found) == 1 else "are"
        cause = f"{named(files)} {are} not safe to read: {found[0].first.what}{more}."
        remedy = Remedy(f"Find out where {listing(files)} came from before anything reads or unpacks it.")
        yield finding(case, found, cause, remedy, "", [*_unpacked(files[0]), *skipped(case)])


def _unpacked(file: DataFile) -> list[Remedy]:
    if file.format != "tar":
        return []
    text = "Unpack it with the filter that raises on such members (Python 3.12, 3.11.4, 3.10.12 or later):"
    return [Remedy(text, code=[f'tarfile.open({file.path!r}).extractall("unpacked", filter="data")'])]
