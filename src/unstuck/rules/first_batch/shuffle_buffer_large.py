"""A shuffle buffer is filled anew before the first batch of every pass, and that takes a large part of the run.

## What it looks at
For each loader over a stream: how long the first batch of every pass was waited for against all others; and how many
samples the stream held back in a list at that moment, as they lie in the variables of the suspended generator, or in
the buffers of HF datasets and torch's datapipes.

## Why it happens
A stream can only be shuffled within a buffer: it reads as many samples as the buffer holds before it gives the first
one. Each worker has a buffer of its own and fills it alone, and in the next pass everything begins anew. With a slow
store or a costly decode that is a long silence at the beginning of every epoch.

## What to do
Make the buffer smaller, and shuffle the order of the files or shards instead, which costs nothing. Put the buffer
before the costly step: shuffle names or encoded bytes, and decode what comes out.

## How sure it is
Certain of the seconds and of the number of samples. It speaks when there were two passes or more, filling took two
seconds a pass, five in all and a fifth of the run, and later batches come ten times as fast. A buffer that is filled
once before a long pass is as it should be.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, lasted
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, HeldBack, Loader
from ...wording.text import duration, many, percent
from ..rule import rule

PASSES = 2  # once has to be paid for
EACH = 2.0  # seconds a pass: what is shorter nobody minds
LONG = 5.0  # seconds in all
SHARE = 0.2  # of the run, from its first pass on
FASTER = 0.1  # of the wait for the first: else it is no buffer that is filled, but a store that is slow all the time
FILLING = 0.5  # of the wait, by the first sample of a worker: it is the one that comes out of a full buffer


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("worker-respawn-epoch-gap",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            loads = fetching(case, main, loader) if loader.iterable else []
            buffer = _buffer(loads)
            if buffer is None or not _is_filled_anew(loader, loads):
                continue
            filling = loader.first_waits.total
            ran = max(lasted(main), filling)
            if filling < LONG or filling < SHARE * ran:
                continue
            yield case.finding(
                main,
                cause=f"{percent(filling / ran)} of the run goes into filling a shuffle buffer: {loader.name} "
                f"reads {buffer.held:,} samples{_by(loader)} before the first batch of every pass, which takes "
                f"{duration(loader.first_waits.mean)} each time.",
                seen=list(_seen(loader, loads, buffer)),
                remedy=_remedy(loader, buffer),
                onset_s=loader.began,
                where=loader.reads_at if is_users(loader.reads_at) else loader.created,
                subject=Subject("loader", loader.name),
            )


def _buffer(loads: list[Fetching]) -> HeldBack | None:
    """The largest that something draws from at random."""
    found = [one for load in loads for one in load.held_back if one.shuffles]
    return max(found, key=lambda one: one.held, default=None)


def _is_filled_anew(loader: Loader, loads: list[Fetching]) -> bool:
    first = loader.first_waits
    longest = max((one.sample_times.longest or one.fetches.longest for one in loads), default=0.0)
    return (
        first.count >= PASSES
        and first.mean >= EACH
        and loader.waits.count > 0
        and loader.waits.mean <= FASTER * first.mean
        and longest >= FILLING * first.mean
    )


def _by(loader: Loader) -> str:
    return " in each worker" if loader.num_workers > 1 else ""


def _seen(loader: Loader, loads: list[Fetching], buffer: HeldBack) -> Iterator[str]:
    yield (
        f"the first batch of a pass is waited for {duration(loader.first_waits.mean)}, over "
        f"{many(loader.first_waits.count, 'pass')}; all others {duration(loader.waits.mean)}"
    )
    whose = f" of {buffer.of}" if buffer.of else ""
    size = f", which may hold {buffer.size:,}" if buffer.size is not None and buffer.size != buffer.held else ""
    yield f"when it came, {buffer.held:,} samples lay in `{buffer.name}`{whose}{size}"
    given = sum(one.samples for one in loads)
    yield f"{given:,} samples were given in all the passes that are recorded, by {many(len(loads), 'process')}"


def _remedy(loader: Loader, buffer: HeldBack) -> Remedy:
    rate = buffer.held / loader.first_waits.mean
    enough = max(round(rate), 1)
    return Remedy(
        f"Make the buffer smaller: {rate:,.0f} samples are read a second, so one of {enough:,} is filled in a second. "
        "To shuffle as well as before, shuffle the order of files or shards at the beginning of each pass, and let "
        "workers read different ones. Or shuffle before decoding: keep names or encoded bytes in the buffer."
    )
