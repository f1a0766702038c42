"""A damaged image or compressed file among the samples cannot be decoded.

## What it looks at
An exception raised while a sample was loaded, in a worker or with num_workers=0, that only a decoder raises over the
content of a file: Pillow's UnidentifiedImageError, "image file is truncated", "broken data stream" and the like, zlib's
"while decompressing data", gzip's, bz2's and lzma's, and an end of file before its time. With the index and the file.
Before a run, `unstuck check`: every image, in folders and in archives, by its structure, and with `--decode` by really
decoding it.

## Why it happens
A download or a copy was interrupted, a disk was full while the file was written, an error page was saved under the name
of an image, or a file of another kind got among them. It shows only when that sample's turn comes, often after hours.

## What to do
Look at the file, and fetch it anew or take it out of the list. Then try to open all of them once, before training:
there is seldom only one. Pillow's LOAD_TRUNCATED_IMAGES fills up what is missing with grey: only as a conscious choice.

## How sure it is
Certain that the decoder refused the content. Files that are missing, locked or on a failing disk are not meant: the
operating system's errors carry a number, a decoder's do not. The file is the one the exception names, or else one that
the failing frames held, which may be a neighbour. Images that a check names were read by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.data_files import Bad, bad, base
from ...analysis.data_wording import finding, listed_out, once_more
from ...analysis.data_wording import place as place_of
from ...analysis.failures import UNIDENTIFIED, Raised, path_of, paths_of, undecoded
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.printable import printable, quoted
from ...wording.text import line, many, said, short
from ..rule import rule

SCAN = (
    r'exec("import sys, pathlib\nfrom PIL import Image\nfor f in pathlib.Path(sys.argv[1]).rglob(sys.argv[2]):'
    r'\n  try: Image.open(f).load()\n  except Exception as e: print(f, e)")'
)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording|data",))
def check(case: Case) -> Iterator[Finding]:
    refused = undecoded(case)[:1]
    for one in refused:
        failure, path, place = one.failure, path_of(one.failure), user_line(one.failure)
        spot = f" at {short(place)}" if place is not None else ""
        yield case.finding(
            one.process,
            cause=f"{_what(failure, path)} {_verdict(failure)}{spot}: {_message(failure)}",
            seen=[*_seen(one), *_of_file(case, path)],
            remedy=_remedy(one, path),
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
    return finding(
        case,
        found,
        f"{first}{held}{more} cannot be decoded{where}: a loader that does not expect it raises when "
        f"{'its' if total == 1 else 'their'} turn comes.",
        Remedy(
            f"Fetch {'it' if total == 1 else 'them'} anew, or leave {'it' if total == 1 else 'them'} out: --quarantine "
            "writes the names, with a filter for the loader.",
            [*listed_out(case), *once_more(case, files[0])],
        ),
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
    is_what = "is damaged, or no image at all," if failure.type == UNIDENTIFIED else "is damaged"
    return f"{is_what} and could not be decoded"


def _sample(failure: Failure) -> str:
    if failure.index is not None and not failure.collating:
        return f"sample {failure.index}"
    return f"sample number {failure.position + 1:,} of its stream" if failure.position is not None else ""


def _message(failure: Failure) -> str:
    first = failure.message.strip().splitlines()[:1]
    text = first[0][:160] if first else failure.type
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _seen(one: Raised) -> Iterator[str]:
    failure, place = one.failure, user_line(one.failure)
    yield said(failure) + (f", raised under {line(place)} in {place.function}" if place is not None else "")
    inner = failure.frames[-1] if failure.frames else None
    if inner is not None and inner != place:
        yield f"by {'/'.join(inner.file.split('/')[-2:])}:{inner.line} in {inner.function}"
    if _sample(failure):
        yield f"{_sample(failure)}, in {one.by}"
    if failure.stage:
        yield f"in the stage {failure.stage}" + (f" of {failure.item}" if failure.item else "")
    yield from (f"file in hand: {path}" for path in paths_of(failure)[:2])
    if one.loader is not None:
        before = f", after {many(one.loader.batches, 'batch')}"
        yield f"it was for {one.loader.name}{before}"


def _subject(failure: Failure, path: str) -> Subject | None:
    if path:
        return Subject("file", path)
    return Subject("sample", str(failure.index)) if failure.index is not None else None


def _remedy(one: Raised, path: str) -> Remedy:
    rest = "Then try all files once before the next run: there is seldom only one such."
    if not path:
        return Remedy(f"See which file {_sample(one.failure) or 'it'} is, and fetch it anew or leave it out. {rest}")
    pillow = one.failure.type == UNIDENTIFIED or any("/PIL/" in frame.file for frame in one.failure.frames)
    commands = [f"ls -l {quoted(path)}", f"file {quoted(path)}"]
    return Remedy(
        f"Fetch {path} anew, or take it out of the list. {rest}", [*commands, _scan(path)] if pillow else commands
    )


def _scan(path: str) -> str:
    """Opens every file of that kind, and prints those that cannot be."""
    folder, _, name = path.rpartition("/")
    pattern = f"*.{name.rpartition('.')[2]}" if "." in name else "*"
    return f"python -c {quoted(SCAN)} {quoted(folder or '.')} {quoted(pattern)}"
