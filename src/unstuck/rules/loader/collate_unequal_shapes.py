"""The samples of one batch have different shapes, so they cannot be stacked.

## What it looks at
An exception raised while a batch was collated, in a worker or with num_workers=0, whose text is one of those by which
torch and numpy refuse to stack what is not equal. And the shape of every sample of that batch, with its index.

## Why it happens
The default collate function stacks the samples of a batch into one tensor. An image that was not resized, one channel
where the others have three, a sequence that was not padded: one such sample is enough. With workers the same mistake
often reads "Trying to resize storage that is not resizable", because the worker has reserved shared memory for shapes
like the first.

## What to do
Make the samples equal where they are made (resize, crop, convert), or pad them in a `collate_fn` of your own. If only
a few are odd, look at these: they may not be what they should.

## How sure it is
Certain: the shapes stand beside the exception. Where they could not be noted it goes by the text alone. It stays silent
when all shapes are equal and the text may mean something else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import Raised, raised
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.text import line, many, said
from ..rule import rule

STACKED = "stack expects each tensor to be equal size"
RESIZED = "Trying to resize storage that is not resizable"
LISTS = "each element in list of batch should be of equal size"
# Of a collate_fn of the user's own: torch.cat, torch.tensor, numpy.stack, numpy.array.
OWN = (
    "Sizes of tensors must match except in dimension",
    "expected sequence of length",
    "all input arrays must have the same shape",
    "inhomogeneous shape",
)
COLLATE = "/torch/utils/data/_utils/collate.py"
FETCH = "/data/_utils/fetch.py"
CHANNELS = 4  # grey, grey with alpha, colours, colours with alpha
TEXTS = re.compile(r"\b(str|bytes) of \d+")  # how long a text is plays no part: texts are not stacked
SIZES = re.compile(r"\w+\[([\d, ]*)\]")
FIELD = re.compile(r"(?:[\w.]+: )?\w+\[[\d, ]*\]")  # float32[3, 4], or image: float32[3, 4]
SHOWN = 6  # samples named in one line
KINDS = 3  # of shapes shown


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for one in [found for found in raised(case) if _unequal(found.failure)][:1]:
        kinds = _kinds(one.failure)
        odd = _odd(kinds)
        yield case.finding(
            one.process,
            cause=f"Samples of one batch cannot be stacked: {_difference(one.failure, kinds)}",
            seen=list(_seen(one, kinds)),
            remedy=_remedy(one, kinds, odd),
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
    shapes = [TEXTS.sub(r"\1", one) for one in failure.shapes]
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


def _difference(failure: Failure, kinds: dict[str, list[str]]) -> str:
    if len(kinds) < 2:
        return f"{said(failure, 200).rstrip('.')}."
    usual, other, *more = kinds
    this, that = _parts(other, usual)
    if not _odd(kinds):
        count = many(sum(map(len, kinds.values())), "sample")
        return f"{count} have {len(kinds)} different shapes, such as {that} and {this}."
    rest = f", {len(more)} more differ in other ways" if more else ""
    most = f"{len(kinds[usual])} others have" if len(kinds[usual]) > 1 else "another has"
    has = "has" if len(kinds[other]) == 1 else "have"
    return f"{_named(failure, kinds[other])} {has} {this}, {most} {that}{rest}."


def _parts(one: str, other: str) -> tuple[str, str]:
    """Of two shapes, the fields in which they differ; all of it where that does not show."""
    differ = [pair for pair in zip(FIELD.findall(one), FIELD.findall(other), strict=False) if pair[0] != pair[1]]
    if not differ:
        return one, other
    return ", ".join(pair[0] for pair in differ), ", ".join(pair[1] for pair in differ)


def _named(failure: Failure, names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    listed = f"{'sample' if len(names) == 1 else 'samples'} {', '.join(names[:SHOWN])}{more}"
    return listed if _indexed(failure) else f"{listed.replace(' ', ' number ', 1)} of the batch"


def _seen(one: Raised, kinds: dict[str, list[str]]) -> Iterator[str]:
    place = user_line(one.failure)
    under = f", under {line(place)}" if is_users(place) else ""
    yield f"{said(one.failure)}{under}"
    if len(kinds) > 1:
        yield from (f"{shape}: {_named(one.failure, names)}" for shape, names in list(kinds.items())[:KINDS])
    if len(kinds) > KINDS:
        yield f"and {many(len(kinds) - KINDS, 'further shape')}"
    at = f", batch {one.failure.batch}" if one.failure.batch is not None else ""
    yield f"in {one.by}{at}"
    if one.loader is not None:
        yield f"it is {one.loader.name}, with {_collate_fn(one)}"


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


def _remedy(one: Raised, kinds: dict[str, list[str]], odd: list[str]) -> Remedy:
    return Remedy(f"Look at {_named(one.failure, odd)} first. {_advice(kinds)}" if odd else _advice(kinds))


def _advice(kinds: dict[str, list[str]]) -> str:
    """What fits the first two shapes that differ."""
    sizes = [[_numbers(size) for size in SIZES.findall(shape)] for shape in list(kinds)[:2]]
    differ = [(one, other) for one, other in zip(*sizes, strict=False) if one != other] if len(sizes) == 2 else []
    if not differ or len(sizes[0]) != len(sizes[1]):
        return "Give every sample the same fields and shapes where it is made, or write a collate_fn that pads."
    one, other = differ[0]
    if len(one) != len(other):
        return "They differ in their number of dimensions: give them the same where they are made."
    if len(one) == 3 and one[1:] == other[1:] and max(one[0], other[0]) <= CHANNELS:
        return 'They differ in their channels: convert every image to the same, for example by image.convert("RGB").'
    if one[1:] == other[1:]:
        return "They differ in length: pad them in a collate_fn, for example by torch.nn.utils.rnn.pad_sequence."
    return "They differ in size: resize or crop them to one size in __getitem__, or batch samples of one size together."


def _numbers(size: str) -> tuple[int, ...]:
    return tuple(int(one) for one in size.split(",") if one.strip())
