"""A sample cannot be decoded, though the file around it is whole.

## It means
A program was stopped in the middle of a line and went on later, two programs wrote to one file, a field has another
encoding, a record is an error message, or a file was truncated before it was packed. The decoder raises when that
sample's turn comes, and again in every epoch.

## Fix
Write these samples again, or skip them knowingly and count how many there are:

```python
# before
records = [json.loads(line) for line in open(path)]
# after
records, skipped = [], 0
for number, line in enumerate(open(path), 1):
    try:
        records.append(json.loads(line))
    except json.JSONDecodeError as error:
        skipped += 1
        print(f"{path}, line {number}: {error}")
```

## Check it yourself
This prints the numbers of lines that are not valid JSON:

```python
import json

for number, line in enumerate(open("part-001.jsonl", encoding="utf-8", errors="surrogateescape"), 1):
    try:
        json.loads(line)
    except ValueError as error:
        print(number, error)
```

## Not this, if
- it is an image: [corrupt-image-sample](corrupt-image-sample.md)
- only the last line is broken: [file-truncated](file-truncated.md)
- the sample can be decoded, and user code raises on it: [fails-on-sample](fails-on-sample.md)

## How sure
Certain that the decoder refuses these samples. It is judged from members of archives, lines and rows, each really
decoded: JSON, text, arrays (members of archives with `--decode`). A loader that never looks at that part would not
notice.

## Seen in
- https://github.com/openai/evals/pull/259: a JSONDecodeError that says line 1, and the broken line was number 143
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad
from ...analysis.data_wording import finding, listing, named, once_more, skipped
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many
from ..rule import rule

TEXTS = ("json.decoder.JSONDecodeError", "JSON parse error", "codec can't decode byte")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "undecodable")
    if found:
        total, name = sum(one.total for one in found), named([one.file for one in found])
        json = all(one.file.format == "jsonl" for one in found)
        what = f"{many(total, 'line')} of {name}" if json else f"{many(total, 'sample')} of {name}"
        are = f"{'is' if total == 1 else 'are'} invalid JSON" if json else "cannot be decoded"
        files = [one.file for one in found]
        yield finding(
            case,
            found,
            f"{what} {are} ({'first: ' if total > 1 else ''}{_which(found[0])}): decoding raises.",
            Remedy(f"Write these samples of {listing(files)} again, then check the file.", once_more(case, files[0])),
            "",
            skipped(case),
        )


def _which(one: Bad) -> str:
    fault = one.first
    if fault.row is not None:
        return f"{'line' if one.file.format == 'jsonl' else 'row'} {fault.row:,}"
    return fault.sample or fault.member or "the file itself"
