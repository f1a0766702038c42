"""A damaged image or compressed file cannot be decoded, and crashes the training when its turn comes.

## It means
A download or a copy was interrupted, a disk was full while the file was written, an error page was saved under the name
of an image, or a file of another kind is among the images. The decoder refuses such a file. That happens only when the
sample is loaded, often after hours of training.

## Fix
Look at the file. Download or copy it again, or remove it from the file list:
```sh
ls -l -- "$FILE"
file -- "$FILE"
```
Then decode all files once before the next run, as shown below: there is seldom only one damaged file.

Skipping damaged samples in `__getitem__` hides how many are lost. If you do it, log every path:
```python
try:
    image = Image.open(path).convert("RGB")
except OSError as error:
    logging.warning("skipped %s: %s", path, error)
    return self[(index + 1) % len(self)]
```
`PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True` fills the missing part of a truncated image with grey: only as a conscious
choice.

## Check it yourself
Decode every image of a folder, and print those that cannot be decoded:
```python
import sys
from pathlib import Path
from PIL import Image

for path in Path(sys.argv[1]).rglob("*.jpg"):
    try:
        with Image.open(path) as image:
            image.load()
    except Exception as error:
        print(path, error)
```

## Not this, if
- the dataset's own code raised, and no decoder: [worker-python-exception](worker-python-exception.md)
- the file is missing or cannot be read at all: [file-unreadable](file-unreadable.md)
- a tar archive ends in the middle: [tar-truncated-loud](tar-truncated-loud.md),
  [tar-truncated-silent](tar-truncated-silent.md)
- images decode, but have different sizes: [collate-unequal-shapes](collate-unequal-shapes.md)

## How sure
Judged from an exception raised while a sample was loaded, in a worker or with `num_workers=0`, that only a decoder
raises over the content of a file: Pillow's UnidentifiedImageError, "image file is truncated", "broken data stream" and
the like, zlib's "while decompressing data", those of gzip, bz2 and lzma, and an end of file before its time. Certain
that the decoder refused the content. Files that are missing, locked or on a failing disk are not meant: errors of the
operating system carry a number, those of a decoder do not. The file is the one the exception names, or else one that
the failing frames held, which may be a neighbour. Before a run, `unstuck check` looks at every image, in folders and in
archives, by its structure, and with `--decode` by really decoding it. Images that a check names were read one by one.

## Seen in
- https://github.com/pytorch/vision/issues/138: "image file is truncated (54 bytes not processed)" from ImageFolder; the
  data set had corrupted images.
- https://github.com/lucidrains/stylegan2-pytorch/issues/7: a run of two hours ended by one truncated image.
- https://github.com/udacity/deep-learning-v2-pytorch/issues/134: one truncated image in a public data set.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.data_files import Bad, bad, base
from ...analysis.data_wording import finding, once_more, skipped
from ...analysis.data_wording import place as place_of
from ...analysis.failures import UNIDENTIFIED, Raised, path_of, paths_of, undecoded
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.printable import printable, quoted
from ...wording.text import many, said
from ..rule import rule

TEXTS = (
    "image file is truncated",
    "cannot identify image file",
    "PIL.UnidentifiedImageError",
    "broken data stream when reading image file",
    "Error -3 while decompressing data",
    "Compressed file ended before the end-of-stream marker was reached",
    "pickle data was truncated",
)
CUT_SHORT = ("truncated", "ended before the end", "Ran out of input", "incomplete")  # in what a decoder says


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording|data",))
def check(case: Case) -> Iterator[Finding]:
    refused = undecoded(case)[:1]
    for one in refused:
        failure, path, place = one.failure, path_of(one.failure), user_line(one.failure)
        yield case.finding(
            one.process,
            cause=f"{_what(failure, path)} {_verdict(failure)} and could not be decoded.",
            seen=[*_seen(one), *_of_file(case, path)],
            remedy=_remedy(one, path),
            alternatives=_find_others(one, path),
            saw=said(failure),
            onset_s=failure.at,
            where=place,
            subject=_subject(failure, path),
        )
    images = bad(case, "image")
    if images and not refused:
        yield _checked(case, images)


def _checked(case: Case, found: list[Bad]) -> Finding:
    """Files were read on purpose."""
    files, total = [one.file for one in found], sum(one.total for one in found)
    first = printable(found[0].first.member) or base(files[0].path)
    held = f" in {base(files[0].path)}" if found[0].first.member else ""
    more = f" and {many(total - 1, 'other image')}" if total > 1 else ""
    where = f", in {many(len(files), 'file')}" if more and len(files) > 1 and held else ""
    them, again = "it" if total == 1 else "them", once_more(case, files[0])
    return finding(
        case,
        found,
        f"{first}{held}{more} cannot be decoded{where}; loaders that do not skip {them} crash.",
        Remedy(f"Download or copy {them} again{', then check once more' if again else ''}", again),
        alternatives=skipped(case),
    )


def _of_file(case: Case, path: str) -> Iterator[str]:
    """What reading that very file showed."""
    for file in case.data.files if case.data is not None and path else ():
        if file.path == path:
            yield from (f"in the file, {place_of(fault)}" for fault in file.faults[:3])


def _what(failure: Failure, path: str) -> str:
    sample = _sample(failure)
    if path:
        return f"{path.rpartition('/')[2]} ({sample})" if sample else path.rpartition("/")[2]
    return f"{sample[:1].upper()}{sample[1:]}" if sample else "A sample"


def _verdict(failure: Failure) -> str:
    if failure.type == UNIDENTIFIED:
        return "is damaged, or is no image,"
    return "is truncated" if any(words in failure.message for words in CUT_SHORT) else "is damaged"


def _sample(failure: Failure) -> str:
    if failure.index is not None and not failure.collating:
        return f"sample {failure.index}"
    return f"sample number {failure.position + 1:,} of its stream" if failure.position is not None else ""


def _seen(one: Raised) -> Iterator[str]:
    failure, place = one.failure, user_line(one.failure)
    yield from (f"file open or named there: {path}" for path in paths_of(failure)[:2])
    inner = failure.frames[-1] if failure.frames else None
    if inner is not None and inner != place:
        yield f"raised by {'/'.join(inner.file.split('/')[-2:])}:{inner.line} in {inner.function}"
    before = f", after {many(one.loader.batches, 'batch')}" if one.loader is not None else ""
    yield f"{f'{_sample(failure)}, ' if _sample(failure) else ''}in {one.by}{before}"
    if failure.stage:
        yield f"in the stage {failure.stage}" + (f" of {failure.item}" if failure.item else "")
    if one.loader is not None:
        yield f"loader: {one.loader.name}"


def _subject(failure: Failure, path: str) -> Subject | None:
    if path:
        return Subject("file", path)
    return Subject("sample", str(failure.index)) if failure.index is not None else None


def _remedy(one: Raised, path: str) -> Remedy:
    if not path:
        return Remedy(f"Find out which file {_sample(one.failure) or 'it'} is; replace it or remove it from the list.")
    return Remedy(
        "Replace the file, or remove it from the file list", [f"ls -l {quoted(path)}", f"file {quoted(path)}"]
    )


def _find_others(one: Raised, path: str) -> list[Remedy]:
    """There is seldom only one damaged file."""
    if not path:
        return []
    pillow = one.failure.type == UNIDENTIFIED or any("/PIL/" in frame.file for frame in one.failure.frames)
    folder, decode = path.rpartition("/")[0] or ".", " --decode" if pillow else ""
    return [Remedy("Find the other damaged files before the next run", [f"unstuck check {quoted(folder)}{decode}"])]
