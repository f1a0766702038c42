"""Samples of one batch have different shapes, so they cannot be stacked into a tensor.

## It means
The default collate function stacks the samples of a batch into one tensor, and that needs equal shapes. One odd sample
is enough: an image that was not resized, one with a single channel among images with three, a sequence that was not
padded. With workers the same mistake often reads "Trying to resize storage that is not resizable", because the worker
has already reserved shared memory for shapes like the first.

## Fix
Make the samples equal where they are made. Images with another number of channels:
```python
image = Image.open(path).convert("RGB")
```
Images of different sizes:
```python
transform = v2.Compose([v2.Resize(256), v2.CenterCrop(224)])  # Resize(256) alone keeps the aspect ratio
```
Sequences of different lengths: pad them in a `collate_fn`, and keep the lengths.
```python
from torch.nn.utils.rnn import pad_sequence


def collate(samples):
    rows = [one["tokens"] for one in samples]
    return {"tokens": pad_sequence(rows, batch_first=True), "lengths": torch.tensor([len(row) for row in rows])}


loader = DataLoader(dataset, batch_size=32, num_workers=4, collate_fn=collate)
```
If only a few samples are odd, look at them first: they may not be what they should be.

## Check it yourself
Without workers the error says which shapes differ:
```python
next(iter(DataLoader(dataset, batch_size=32, num_workers=0)))
```
Count the shapes of all samples, for tensors in the first place of a sample:
```python
from collections import Counter

print(Counter(tuple(dataset[i][0].shape) for i in range(len(dataset))).most_common(10))
```

## Not this, if
- the exception comes from the dataset's own code, not from collating:
  [worker-python-exception](worker-python-exception.md)
- the image itself cannot be decoded: [corrupt-image-sample](corrupt-image-sample.md)
- accelerate concatenates the batches of several ranks:
  [accelerate-dispatch-shape-mismatch](accelerate-dispatch-shape-mismatch.md)
- ranks gather tensors of different sizes: [collective-shape-mismatch](collective-shape-mismatch.md)

## How sure
Judged from an exception raised while a batch was collated, in a worker or with `num_workers=0`, whose text is one of
those with which torch and numpy refuse to stack what is not equal, and from the shape and index of every sample of that
batch. Certain: the shapes are recorded with the exception. Where they could not be recorded, it goes by the text alone.
It stays silent when all shapes are equal and the text may mean something else.

## Seen in
- https://github.com/ykdai/BasicPBC/issues/26: the same dataset raised "Trying to resize storage" with workers and
  "stack expects each tensor to be equal size" without.
- https://github.com/Lightning-AI/litData/issues/472: "Trying to resize storage that is not resizable" from a streaming
  dataset.
- https://github.com/open-edge-platform/anomalib/issues/1855: the same error, raised in a collate function that calls
  the default one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import Raised, raised
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.text import many, said, short
from ..rule import rule

TEXTS = (
    "stack expects each tensor to be equal size",
    "Trying to resize storage that is not resizable",
    "each element in list of batch should be of equal size",
    "Sizes of tensors must match except in dimension",
    "expected sequence of length",
    "all input arrays must have the same shape",
    "The requested array has an inhomogeneous shape",
)
STACKED, RESIZED, LISTS = TEXTS[:3]
# Of a collate_fn of the user's own: torch.cat, torch.tensor, numpy.stack, numpy.array.
OWN = (*TEXTS[3:6], "inhomogeneous shape")
COLLATE = "/torch/utils/data/_utils/collate.py"
FETCH = "/data/_utils/fetch.py"
CHANNELS = 4  # grey, grey with alpha, colours, colours with alpha
LENGTHS = re.compile(r"\b(str|bytes) of \d+")  # how long a text is plays no part: texts are not stacked
FIELD = re.compile(r"(?:[^,:(){}\[\]]+: )?\w+\[[\d, ]*\]")  # float32[3, 4], or image: float32[3, 4]
SHOWN = 6  # samples named in one line
KINDS = 3  # of shapes shown


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for one in [found for found in raised(case) if _unequal(found.failure)][:1]:
        kinds = _kinds(one.failure)
        odd = _odd(kinds)
        yield case.finding(
            one.process,
            cause=f"A batch cannot be stacked: {_difference(one.failure, kinds, odd)}.",
            seen=list(_seen(one, kinds)),
            remedy=_advice(kinds),
            alternatives=_look(one.failure, odd),
            saw=said(one.failure),
            onset_s=one.failure.at,
            where=_where(one),
            subject=Subject("sample", odd[0]) if odd and _indexed(one.failure) else None,
        )


def _unequal(failure: Failure) -> bool:
    text = failure.message
    if STACKED in text or LISTS in text:
        return failure.collating or _in_collate(failure)
    if RESIZED in text:
        differ = len(_kinds(failure)) > 1
        return _in_collate(failure) and (differ or not failure.shapes)
    return failure.collating and any(words in text for words in OWN)


def _in_collate(failure: Failure) -> bool:
    return any(frame.file.endswith(COLLATE) for frame in failure.frames)


def _kinds(failure: Failure) -> dict[str, list[str]]:
    """Samples by their shape, the most frequent shape first. By place in the batch where they have no index."""
    shapes = [LENGTHS.sub(r"\1", one) for one in failure.shapes]
    names = [str(one) for one in failure.indices] if _indexed(failure) else [str(at + 1) for at in range(len(shapes))]
    kinds: dict[str, list[str]] = {shape: [] for shape, _ in Counter(shapes).most_common()}
    for shape, name in zip(shapes, names, strict=True):
        kinds[shape].append(name)
    return kinds


def _indexed(failure: Failure) -> bool:
    return len(failure.indices) == len(failure.shapes)


def _odd(kinds: dict[str, list[str]]) -> list[str]:
    """Samples that are not like the most, if there is a most."""
    usual, *others = [len(names) for names in kinds.values()] or [0]
    return [name for names in list(kinds.values())[1:] for name in names] if usual > sum(others) else []


def _difference(failure: Failure, kinds: dict[str, list[str]], odd: list[str]) -> str:
    """In which respect the first two shapes differ. All numbers of them are in the evidence."""
    if len(kinds) < 2:
        return "its samples have different shapes"
    if not odd:
        return f"its {sum(map(len, kinds.values()))} samples have {len(kinds)} different shapes"
    which, has = (_named(failure, odd), "has") if len(odd) == 1 else (f"{len(odd)} samples", "have")
    several = len(odd) > len(kinds[list(kinds)[1]])  # they differ in more than one way
    return f"{which} {has} {_respect(None if several else _differ(kinds))}"


def _respect(differ: Differ | None) -> str:
    if differ is None:
        return "another shape than the others"
    usual, other, field = differ.usual, differ.other, f" in `{differ.field}`" if differ.field else ""
    if len(usual) != len(other):
        return f"{many(len(other), 'dimension')}{field}, the others {len(usual)}"
    if _are_channels(usual, other):
        return f"{many(other[0], 'channel')}{field}, the others {usual[0]}"
    if usual[1:] == other[1:]:
        return f"length {other[0]}{field}, the others {usual[0]}"
    return f"another size than the others{field}"


class Differ(NamedTuple):
    """The first field in which samples differ, and its sizes."""

    field: str  # its name, where samples are dicts
    usual: tuple[int, ...]
    other: tuple[int, ...]


def _differ(kinds: dict[str, list[str]]) -> Differ | None:
    """Of the first two shapes. None: they differ in their fields, or there is only one."""
    found = [FIELD.findall(shape) for shape in list(kinds)[:2]]
    if len(found) < 2 or len(found[0]) != len(found[1]):
        return None
    for usual, other in zip(*found, strict=True):
        sizes = _numbers(usual), _numbers(other)
        if sizes[0] != sizes[1]:
            name, _, rest = usual.partition(": ")
            return Differ(name.strip() if rest else "", *sizes)
    return None


def _are_channels(usual: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(usual) == 3 and usual[1:] == other[1:] and max(usual[0], other[0]) <= CHANNELS


def _named(failure: Failure, names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    listed = f"{'sample' if len(names) == 1 else 'samples'} {', '.join(names[:SHOWN])}{more}"
    return listed if _indexed(failure) else f"{listed.replace(' ', ' number ', 1)} of the batch"


def _seen(one: Raised, kinds: dict[str, list[str]]) -> Iterator[str]:
    if len(kinds) > 1:
        yield from (f"{shape}: {_named(one.failure, names)}" for shape, names in list(kinds.items())[:KINDS])
    if len(kinds) > KINDS:
        yield f"and {many(len(kinds) - KINDS, 'further shape')}"
    place = user_line(one.failure)
    under = f", below {short(place)}" if place is not None and is_users(place) else ""
    at = f"batch {one.failure.batch}, " if one.failure.batch is not None else ""
    yield f"raised in {at}{one.by}{under}"
    if one.loader is not None:
        yield f"loader: {one.loader.name}, {_collate_fn(one)}"


def _collate_fn(one: Raised) -> str:
    name = (one.loader.collate_fn if one.loader is not None else None) or ""
    return "the default collate function" if name.endswith("default_collate") else f"collate_fn {name or 'unknown'}"


def _where(one: Raised) -> Place | None:
    """The line of the user's own collate function; else the one that made the loader and left it the default."""
    frames = one.failure.frames
    fetches = [at for at, frame in enumerate(frames) if frame.file.endswith(FETCH)]
    own = [frame for frame in frames[fetches[-1] + 1 :] if is_users(frame)] if fetches else []
    if own:
        return own[-1]
    return one.loader.created if one.loader is not None and one.loader.created is not None else user_line(one.failure)


def _look(failure: Failure, odd: list[str]) -> list[Remedy]:
    if not odd:
        return []
    which = _named(failure, odd)
    number = odd[0] if _indexed(failure) and odd[0].isdigit() else ""
    return [
        Remedy(
            f"Inspect {which}: it may not be what it should be." if len(odd) == 1 else f"Inspect {which}.",
            code=[f"print(dataset[{number}])"] if number else [],
        )
    ]


def _advice(kinds: dict[str, list[str]]) -> Remedy:
    """What fits the first two shapes that differ."""
    differ = _differ(kinds)
    if differ is None:
        return Remedy("Give every sample the same fields and shapes where it is made, or pad in a collate_fn.")
    if len(differ.usual) != len(differ.other):
        return Remedy("Give all samples the same number of dimensions where they are made.")
    if _are_channels(differ.usual, differ.other):
        return Remedy(
            "Convert every image to the same channels", code=['image = image.convert("RGB")  # a Pillow image']
        )
    if differ.usual[1:] == differ.other[1:]:
        return Remedy(
            "Pad the sequences in a collate_fn (pad_sequence)", code=_padding(next(iter(kinds)), differ.field)
        )
    return Remedy("Resize or crop every sample to one size in __getitem__, or batch samples of equal size together.")


def _padding(shape: str, field: str) -> list[str]:
    """For samples that are tensors, or dicts of them: what else they may be is not known so exactly."""
    if FIELD.fullmatch(shape):
        return [
            "def collate(samples):",
            "    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)",
        ]
    if not field or not shape.startswith("{") or shape.count("{") > 1:
        return []
    return [
        "def collate(samples):",
        f"    rest = [{{key: one[key] for key in one if key != {field!r}}} for one in samples]",
        f"    rows = [one[{field!r}] for one in samples]",
        f"    return {{**default_collate(rest), {field!r}: pad_sequence(rows, batch_first=True)}}",
    ]


def _numbers(field: str) -> tuple[int, ...]:
    return tuple(int(one) for one in field.rpartition("[")[2].rstrip("]").split(",") if one.strip())
