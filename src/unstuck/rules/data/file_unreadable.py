"""The system refuses to read a file to its end, or every process that reads it is killed.

## It means
A disk has bad sectors, a network file system lost its server, or an object store broke off. Or the content crashes the
library that reads it: a damaged length inside the file makes it read where it may not.

## Fix
Read the file once more. If it fails again, look at what the kernel says about the disk or the mount, and fetch the file
from another place:

```sh
cat birds-2.tar > /dev/null
sudo dmesg --ctime | tail
```

If the file can be read and a process still crashes on it, the content is bad: fetch it again.

## Check it yourself
```sh
dd if=birds-2.tar of=/dev/null bs=1M          # says after how many bytes it fails
stat --file-system birds-2.tar                # which file system it is on
ls -l birds-2.tar                             # who may read it
```

## Not this, if
- the file can be read and its content is wrong: [file-damaged](file-damaged.md), [file-truncated](file-truncated.md)
- reading never fails, and never ends: [worker-blocked-io](worker-blocked-io.md)
- a worker crashes on any file: [worker-segfault](worker-segfault.md)

## How sure
Certain that it could not be read here and now. It is judged from errors of the operating system while the file was read
(input/output error, stale file handle, timeout), with the byte at which they came, and from processes that were started
to read it and were killed, twice. A network may be back in an hour: then the file is read as if nothing had happened.

## Seen in
- https://github.com/MIC-DKFZ/nnUNet/issues/1784: a training over files on `/media` that fail with
  `[Errno 5] Input/output error`
- https://github.com/dansuh17/segan-pytorch/issues/19: the same in a DataLoader worker, over a mounted drive
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad
from ...analysis.data_wording import fetch, finding, listing, named, once_more, skipped
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import quoted
from ..rule import rule

TEXTS = ("[Errno 5] Input/output error", "[Errno 116] Stale file handle")
DIED = "reader-died"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",), outranks=("worker-segfault",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "unreadable", DIED)
    if found:
        name, first = named([one.file for one in found]), found[0].first
        said = first.what.partition(": ")[2] or first.what
        cause = f"{name} cannot be read: {said}."
        if first.kind == DIED:
            cause = f"Reading {name} kills the process that reads it."
        remedy, *others = _ways_out(case, found)
        yield finding(case, found, cause, remedy, "", others)


def _ways_out(case: Case, found: list[Bad]) -> Iterator[Remedy]:
    files, first = [one.file for one in found], quoted(found[0].file.path)
    if found[0].first.kind == DIED:
        yield fetch(case, found)
        yield from skipped(case)
        return
    text = f"Read {listing(files)} once more by hand. If it fails again, look at the kernel's messages about the disk."
    yield Remedy(text, [f"cat {first} > /dev/null", "dmesg | tail"])
    yield Remedy("Fetch it from another place, then check it.", once_more(case, files[0]))
    yield from skipped(case)
