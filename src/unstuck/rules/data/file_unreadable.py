"""The system refuses to read a file to its end, or whatever reads it dies.

## What it looks at
Errors of the operating system while the file was read (input/output error, stale file handle, time-out), with the byte
at which they came; and processes that were started to read it and died, twice.

## Why it happens
A disk with bad sectors, a network file system that lost its server, an object store that breaks off. And content that
crashes the library which reads it: a damaged length inside the file, and it reads where it may not.

## What to do
Try once more; look at what the kernel says about the disk or the mount; fetch the file from another place.

## How sure it is
Certain that it could not be read here and now. A network may be back in an hour: then it is read without a word.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad
from ...analysis.data_wording import again, finding, listing, named, once_more
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import quoted
from ..rule import rule

DIED = "reader-died"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",), outranks=("worker-segfault",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "unreadable", DIED)
    if found:
        name, first = named([one.file for one in found]), found[0].first
        yield finding(case, found, f"{name} cannot be read: {first.what}.", _remedy(case, found))


def _remedy(case: Case, found: list[Bad]) -> Remedy:
    files, first = [one.file for one in found], quoted(found[0].file.path)
    if found[0].first.kind == DIED:
        return Remedy(
            f"Fetch {listing(files)} again: its content kills the library that reads it, in training as well.",
            again(case, files),
        )
    return Remedy(
        f"Read {listing(files)} once more by hand. If it fails again, look at what the kernel says of the disk or "
        "mount, and fetch the file from another place.",
        [f"cat {first} > /dev/null", "dmesg | tail", *once_more(case, files[0])],
    )
