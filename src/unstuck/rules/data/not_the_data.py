"""Something else stands in place of the data: an error page, a pointer that was never followed.

## What it looks at
The first bytes of a file whose name promises data and whose content is none of it: a web page, an XML error message of
an object store, a pointer of Git LFS.

## Why it happens
`curl` and `wget` save what the server sends, an error page or a login form as well, unless told to fail. A repository
with large files was cloned without Git LFS, so that each is a text of three lines. The size gives it away: all of them
are small, and many are of the same length.

## What to do
Fetch the data itself: `curl --fail`, `git lfs pull`, and credentials where it asks for them.

## How sure it is
Certain of what stands there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, folder_of
from ...analysis.data_wording import again, finding, listing, named, once_more
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import quoted
from ...wording.text import many
from ..rule import rule

LFS = "Git LFS"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "foreign")
    if found:
        name, are = named([one.file for one in found]), "is" if len(found) == 1 else "are"
        yield finding(
            case,
            found,
            f"{name} {are} not the data: {found[0].first.what} ({many(found[0].file.size, 'byte')}).",
            _remedy(case, found),
        )


def _remedy(case: Case, found: list[Bad]) -> Remedy:
    files = [one.file for one in found]
    if all(LFS in one.first.what for one in found):
        folder = folder_of(files[0].path) or "."
        return Remedy(
            "Fetch what the pointers lead to.", [f"git -C {quoted(folder)} lfs pull", *once_more(case, files[0])]
        )
    return Remedy(
        f"Read what stands there: it often says why. Then fetch {listing(files)} again, so that an error is an error "
        "(`curl --fail`), with the credentials it asks for.",
        [f"head -c 400 {quoted(files[0].path)}", *again(case, files)],
    )
