"""A forked worker touches the GPU, which its parent has already been using.

## What it looks at
torch's own exception, which is raised for nothing else, and where: the user's line under which CUDA was asked for in
the worker. And how the worker was started.

## Why it happens
A forked process has a copy of its parent's memory, but not of the driver's state behind it: CUDA cannot be used in it
once the parent has used it. Usual ways there: `.cuda()` or `.to(device)` in `__getitem__` or collate_fn, a dataset that
holds tensors on the GPU, a model in a transform, `worker_init_fn` that seeds CUDA.

## What to do
Have the dataset give tensors of the CPU, and move the batch in the training loop: with pin_memory=True and
non_blocking=True that costs next to nothing. If samples really have to be computed on the GPU, start the workers by
"spawn"; each then takes some hundred MiB of the GPU for itself.

## How sure it is
Not tried on a GPU: torch's own check raised it, with the driver's answer put in its place. The text is torch's and has
one meaning. The line is where CUDA was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.failures import Raised, fatal, raised_at
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.text import line, said, short, who
from ..rule import rule

TEXT = re.compile(r"Cannot re-initialize (\w+) in forked subprocess")
CARRIED = re.compile(r"in DataLoader worker process (\d+)")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if TEXT.search(one.failure.message)][:1]:
        place = _place(one.failure)
        yield case.finding(
            one.process,
            cause=f"{_device(one.failure)} is used in {_whom(one)}{f' at {short(place)}' if place else ''}. That "
            "process was forked from one that uses it, and cannot.",
            seen=list(_seen(one, place)),
            remedy=_remedy(one, place),
            onset_s=one.failure.at,
            where=place,
            subject=Subject("loader", one.loader.name) if one.loader is not None else None,
        )


def _device(failure: Failure) -> str:
    match = TEXT.search(failure.message)
    return match[1] if match is not None else "CUDA"


def _carried(failure: Failure) -> re.Match[str] | None:
    """A worker's exception as its main process has it: nothing was raised where a sample is fetched."""
    return CARRIED.search(failure.message)


def _whom(one: Raised) -> str:
    match = _carried(one.failure)
    if match is not None and one.process is one.main:
        return f"DataLoader worker {match[1]} of {who(one.main)}"
    return one.by


def _place(failure: Failure) -> Place | None:
    place = raised_at(failure)
    return place if is_users(place) else None


def _seen(one: Raised, place: Place | None) -> Iterator[str]:
    match = TEXT.search(one.failure.message)
    text = match[0] if _carried(one.failure) and match is not None else said(one.failure, 160)
    yield text + (f", under {line(place)} in {place.function}" if place is not None else "")
    if one.failure.collating:
        yield "while the batch was collated"
    elif one.failure.index is not None:
        yield f"while sample {one.failure.index} was fetched"
    if one.loader is not None:
        how = f"; its workers are started by {one.loader.context}" if one.loader.context else ""
        yield f"it fetched for {one.loader.name}{how}"


def _remedy(one: Raised, place: Place | None) -> Remedy:
    where = f" at {short(place)}" if place is not None else " in the dataset and collate_fn"
    text = f"Do without the GPU{where}: leave tensors on the CPU, and move each batch in the loop, "
    text += "batch.to(device, non_blocking=True)"
    text += "." if one.loader is not None and one.loader.pin_memory else ", with pin_memory=True in the DataLoader."
    created = f" ({short(one.loader.created)})" if one.loader is not None and one.loader.created is not None else ""
    text += (
        f' If samples have to be computed on the GPU, give the DataLoader{created} multiprocessing_context="spawn": '
        "each worker then takes memory of the GPU for itself."
    )
    return Remedy(text)
