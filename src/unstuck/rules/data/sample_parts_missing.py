"""Some samples lack a file that nearly all others have, such as their caption.

## It means
A caption could not be fetched, a file was filtered out while its partner stayed, a name has one dot more, a writer was
stopped in the middle of a sample, or a stray file (an index, a README) is taken for a sample of its own by webdataset.
`.to_tuple("jpg", "txt")` then raises a ValueError, and `sample["txt"]` in a map raises a KeyError.

## Fix
Write these samples again with all their files, or skip them before anything asks for the missing one:

```python
# before
dataset = wds.WebDataset(urls).decode("pil").to_tuple("jpg", "txt")
# after
dataset = wds.WebDataset(urls).select(lambda sample: "txt" in sample).decode("pil").to_tuple("jpg", "txt")
```

`unstuck check data/ --quarantine bad-samples.txt` lists them.

## Check it yourself
This prints the keys of a shard that have no `.txt`:

```python
import tarfile

names = tarfile.open("birds-1.tar").getnames()
keys = {name.partition(".")[0] for name in names}
print(sorted(key for key in keys if f"{key}.txt" not in names))
```

## Not this, if
- each sample is whole, and its files are apart in the archive: [tar-keys-not-adjacent](tar-keys-not-adjacent.md)
- the sample at the end of a truncated archive: [tar-truncated-loud](tar-truncated-loud.md)
- the part is there and cannot be decoded: [undecodable-sample](undecodable-sample.md)

## How sure
Likely. It is judged from which parts (the endings of a key's files) the samples of all archives of a series have, and
how many have which. That a part belongs to every sample is concluded where at least 90 % have it; below, it is taken to
be optional. Archives with damage that explains it are ignored.

## Seen in
- https://github.com/mlfoundations/open_clip/pull/179: `didn't find ['jpg', 'png']` ended a training on LAION-2B:
  samples without an image
- https://github.com/webdataset/webdataset/issues/32: the writer was never closed, so its last sample lacked a file
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Lacking, archive_series, folder_of, incomplete
from ...analysis.data_wording import LINES
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many
from ..rule import rule

TEXTS = ("ValueError: didn't find",)
SERIES = 4  # of which it is told


@rule(explains=Symptom.CRASHED, certainty=Certainty.LIKELY, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    if case.data is None or case.data.of_run:
        return
    damaged = incomplete(case)
    for one in archive_series(file for file in case.data.files if file.path not in damaged)[:SERIES]:
        yield _finding(case, one.lacking, one.samples)


def _finding(case: Case, found: list[Lacking], total: int) -> Finding:
    count, files = sum(one.group.samples for one in found), list({one.file.path: one.file for one in found}.values())
    parts = sorted({part for one in found for part in one.missing})
    return case.finding(
        cause=f"{count:,} of {many(total, 'sample')} in {printable(folder_of(files[0].path) or '.')} "
        f"{'has' if count == 1 else 'have'} no {_dotted(parts)}: code that asks for it raises.",
        seen=[*_seen(found), f"the other {many(total - count, 'sample')} have it"],
        remedy=Remedy("Write these samples again with all their files.", _look(found[0])),
        alternatives=[Remedy("Skip them, before anything asks for the missing file:", code=[_select(parts)])],
        subject=Subject("file", files[0].path),
        symptom=Symptom.BAD_DATA.value,
    )


def _dotted(parts: list[str]) -> str:
    return " or ".join(f".{printable(one)}" for one in parts[:4])


def _seen(found: list[Lacking]) -> Iterator[str]:
    for one in found[:LINES]:
        at = f", at byte {one.group.at:,}" if one.group.at is not None else ""
        has = ", ".join(f".{printable(part)}" for part in one.group.parts[:4]) or "nothing"
        times = f"{many(one.group.samples, 'sample')} with only {has} (first: {printable(one.group.first)}{at})"
        yield f"{printable(one.file.path)}: {times}"
    if len(found) > LINES:
        yield f"and {many(sum(one.group.samples for one in found[LINES:]), 'more sample')} like these"


def _look(worst: Lacking) -> list[str]:
    look = f"tar -tvf {quoted(worst.file.path)} | grep -F {quoted(f'{worst.group.first}.')}"
    return [look] if worst.group.first else []


def _select(parts: list[str]) -> str:
    test = " and ".join(f"{part!r} in sample" for part in parts[:4])
    return f"dataset = dataset.select(lambda sample: {test})  # webdataset, before .decode()"
