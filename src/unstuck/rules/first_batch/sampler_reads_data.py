"""The sampler reads the dataset in the main process to decide what comes next.

## What it looks at
How long the main process spent in the sampler for each loader, over all passes; whether a sampler of the user's own has
the dataset; how much of that time there is for each sample that is loaded; and, where the main process was looked at
meanwhile, whether the dataset's `__getitem__` was on its stack below the sampler.

## Why it happens
A sampler that sorts by length, fills buckets or balances classes needs to know something of every sample. If it takes
that from `dataset[index]`, every sample is read and decoded to be thrown away again: in one process, without workers,
before the first batch, and again in every pass if the sampler does so when it is iterated over.

## What to do
Work out lengths, buckets or labels once, keep them in a file or in the dataset, and let the sampler read those.

## How sure it is
Certain of the seconds. It speaks from three seconds and a fifth of the run on, and only if the dataset was seen being
read below the sampler, or if the sampler has the dataset and takes a fifth of a millisecond or more for each sample:
to shuffle, sort or deal out indices costs a hundredth of that. A scan that is done once while the sampler is made is no
matter of drawing, and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...model.doing import place
from ...model.drawing import met, reading_frames
from ...model.evidence import Evidence
from ...model.look import Frame
from ...model.phrases import duration, line, many, percent, short
from ...model.places import Place
from ...model.questions import loader_name
from ...model.recorded import Loader, Process
from ...model.report import Certainty, Finding, Remedy, Subject, Symptom
from ...model.rule import rule
from ...model.waiting import fetching, lasted

LONG = 3.0  # seconds in the sampler: what is shorter nobody notices
SHARE = 0.2  # of the run, from its first pass on
EACH = 200e-6  # seconds for each sample that is loaded: indices alone take a microsecond or two
OFTEN = 1.0  # seconds of samples that met it so, where nothing is recorded and `--seconds` was asked for
GOING_ON = ("starting the iterator", "waiting for a batch")


class Drawn(NamedTuple):
    """Of one loader."""

    seconds: float
    going_on: bool
    frames: tuple[Frame, Frame] | None  # the sampler's and the dataset's, where they were seen


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording|stacks",),
    outranks=(
        "dataloader-bound",
        "first-batch-slow",
        "loader-always-slow",
        "worker-respawn-epoch-gap",
        "spawn-pickle-large-dataset",
        "stuck-in-user-code",
    ),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    yield from _recorded(evidence) if evidence.recording is not None else _met(evidence)


def _met(evidence: Evidence) -> Iterator[Finding]:
    for one in met(evidence):
        if one.seconds < (LONG if evidence.samples is None else OFTEN):
            continue
        sampler, dataset = one.frames
        where = place(sampler)
        yield Finding(
            cause=f"The sampler at {short(where)} reads the dataset in the main process to decide what comes next, and "
            f"nothing is trained meanwhile.",
            seen=[_calls(sampler, dataset), one.told],
            remedy=_remedy("the sampler", where),
            node=one.main.node,
            rank=one.main.rank,
            pid=one.main.pid,
            where=where,
        )


def _recorded(evidence: Evidence) -> Iterator[Finding]:
    for main in evidence.mains():
        for loader in main.loaders:
            drawn = _drawn(evidence, main, loader)
            if drawn is None:
                continue
            ran = max(lasted(main), drawn.seconds)
            if drawn.seconds < LONG or drawn.seconds < SHARE * ran:
                continue
            if drawn.frames is None and not _takes_too_long(evidence, main, loader):
                continue
            where = _sampler_line(loader, drawn)
            yield Finding(
                cause=_cause(loader, drawn, ran, where),
                seen=list(_seen(evidence, main, loader, drawn)),
                remedy=_remedy(_sampler(loader), where),
                node=main.node,
                rank=main.rank,
                pid=main.pid,
                onset_s=loader.began,
                where=where,
                subject=Subject("loader", loader_name(loader)),
            )


def _drawn(evidence: Evidence, main: Process, loader: Loader) -> Drawn | None:
    """What is written down, and what goes on: the first indices are drawn before a batch can be waited for."""
    frames = reading_frames(evidence, main, loader)
    live = (
        frames is not None
        and main.alive
        and loader.now in GOING_ON
        and any(one.pid == main.pid for one in evidence.stacks or ())
    )
    since = max((evidence.looked_at or main.last_sign) - loader.now_since, 0.0) if live else 0.0
    if not loader.drawing.count and not live:
        return None
    return Drawn(loader.drawing.total + since, live, frames)


def _takes_too_long(evidence: Evidence, main: Process, loader: Loader) -> bool:
    samples = sum(one.samples for one in fetching(evidence, main, loader))
    return loader.sampler_holds and samples > 0 and loader.drawing.total / samples >= EACH


def _sampler_line(loader: Loader, drawn: Drawn) -> Place | None:
    return place(drawn.frames[0]) if drawn.frames is not None else loader.sampler_at or loader.created


def _sampler(loader: Loader) -> str:
    own = [one for one in (loader.batch_sampler, loader.sampler) if one and not one.startswith("torch.utils.data")]
    return own[0].rpartition(".")[2] if own else "the sampler"


def _cause(loader: Loader, drawn: Drawn, ran: float, where: Place | None) -> str:
    so_far = " so far" if drawn.going_on else ""
    at = f" ({short(where)})" if where is not None else ""
    return (
        f"{_sampler(loader)}{at} reads the dataset in the main process to decide what comes next: that took "
        f"{duration(drawn.seconds)}{so_far}, {percent(drawn.seconds / ran)} of the run, and nothing was trained "
        f"meanwhile. It is the sampler of {loader_name(loader)}."
    )


def _calls(sampler: Frame, dataset: Frame) -> str:
    return (
        f"{line(place(dataset))} ({dataset.function}) was called from {line(place(sampler))} ({sampler.function}), "
        "in the main process, while indices were drawn"
    )


def _seen(evidence: Evidence, main: Process, loader: Loader, drawn: Drawn) -> Iterator[str]:
    if drawn.frames is not None:
        yield _calls(*drawn.frames)
    drawing = loader.drawing
    if drawing.count:
        yield (
            f"drawing indices took {duration(drawing.total)} for {many(drawing.count, 'batch')} in "
            f"{many(loader.passes, 'pass')}, {duration(drawing.longest)} for one of them"
        )
    samples = sum(one.samples for one in fetching(evidence, main, loader))
    if samples and drawing.count:
        yield f"that is {duration(drawing.total / samples)} for each of the {samples:,} samples that were loaded"
    if loader.first:
        came = (loader.first_at or 0.0) - (loader.began or 0.0)
        yield f"the first batch came {duration(came)} after the first pass was begun"


def _remedy(name: str, where: Place | None) -> Remedy:
    at = f" at {short(where)}" if where is not None else ""
    return Remedy(
        f"Give {name} what it needs instead of the dataset: go through the data once, keep the lengths (or buckets, or "
        f"labels) in a file, and look them up{at}: `lengths = numpy.load('lengths.npy')`. If they can be had without "
        "decoding, from file sizes, headers or a column of a table, read only those."
    )
