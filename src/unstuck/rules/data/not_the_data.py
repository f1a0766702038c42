"""The file holds something else than data: an error page, or a Git LFS pointer.

## It means
`curl` and `wget` save whatever the server sends, so also an error page or a login form. Or a repository with large
files was cloned without Git LFS: then each of them is a text of three lines. The size gives it away: all such files are
small, and many have the same length.

## Fix
Fetch the data itself. For Git LFS:

```sh
git lfs install
git -C data lfs pull
```

From the Hugging Face Hub, without git: `hf download OWNER/NAME --repo-type dataset --local-dir data`. With curl, let an
error be an error, and pass the credentials that the server asks for:

```sh
curl --fail --location --output part-00003.parquet "$URL"
```

## Check it yourself
```sh
head -c 200 part-00003.parquet                # says what it is
grep -rlI 'version https://git-lfs' data/     # all pointers
file data/*
```

## Not this, if
- it is the right kind of file, and its end is missing: [file-truncated](file-truncated.md)
- it has no bytes at all: [empty-file](empty-file.md)
- one record among many is an error message: [undecodable-sample](undecodable-sample.md)

## How sure
Certain of what is there. It is judged from the first bytes of a file whose name promises data and whose content is no
data at all: a web page, an XML error message of an object store, a JSON message, a pointer of Git LFS.

## Seen in
- https://github.com/InertExpert2911/Mutual_Fund_Data/issues/1: a parquet file of 134 bytes, a Git LFS pointer, and
  `Parquet magic bytes not found in footer`
- https://github.com/git-lfs/git-lfs/issues/4830: how to get from a pointer to the data
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, folder_of
from ...analysis.data_wording import finding, listing, named, once_more, skipped
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import quoted
from ...wording.text import many
from ..rule import rule

TEXTS = (
    "version https://git-lfs.github.com/spec/v1",
    "Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.",
    "invalid load key, 'v'.",
    "Error while deserializing header: header too large",
)
LFS = "Git LFS"
KINDS = {  # by a word of the fault: one such file, and several
    LFS: ("a Git LFS pointer", "Git LFS pointers"),
    "web page": ("a web page", "web pages"),
    "XML": ("an XML error message", "XML error messages"),
    "JSON": ("a JSON message", "JSON messages"),
}


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "foreign")
    if found:
        remedy, *others = _ways_out(case, found)
        cause = f"{named([one.file for one in found])} {_are(found)}."
        yield finding(
            case, found, cause, remedy, "", others, [f"size of the first: {many(found[0].file.size, 'byte')}"]
        )


def _are(found: list[Bad]) -> str:
    kinds = {_kind(one) for one in found}
    kind = kinds.pop() if len(kinds) == 1 else ""
    if len(found) == 1:
        return f"is {KINDS[kind][0]}, not data" if kind else "is not data"
    return f"are {KINDS[kind][1]}, not data" if kind else "are not data"


def _kind(one: Bad) -> str:
    return next((word for word in KINDS if word in one.first.what), "")


def _ways_out(case: Case, found: list[Bad]) -> Iterator[Remedy]:
    files = [one.file for one in found]
    first = files[0]
    if all(_kind(one) == LFS for one in found):
        pull = f"git -C {quoted(folder_of(first.path) or '.')} lfs pull"
        yield Remedy("Fetch the data that the pointers stand for.", [pull, *once_more(case, first)])
    else:
        text = f"Read what it says, then fetch {listing(files)} again, with credentials where the server asks for them."
        yield Remedy(text, [f"head -c 400 {quoted(first.path)}", *once_more(case, first)])
        yield Remedy("Let the download fail on an error: `curl --fail`, which keeps no error page.")
    yield from skipped(case)
