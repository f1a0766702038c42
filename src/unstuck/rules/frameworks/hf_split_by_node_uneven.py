"""Streams that split_dataset_by_node shared out came to their ends at different times, and a rank waits for ever.

## What it looks at
How many batches each rank got from the same loader over a stream of Hugging Face datasets, which rank came to the end
of its pass while others wait in a collective with a batch that it never had; how `split_dataset_by_node` shared the
stream out (whole shards, or one sample in so many), and which steps of the stream leave samples out.

## Why it happens
`split_dataset_by_node` shares out shards, or samples before they are filtered, and nobody counts what comes out in the
end. Shards have different sizes, five shards on two ranks are three and two, a `filter()` or a packing `map()` leaves
more on one rank than on another. A stream has no length, so that no sampler can pad it. The shorter rank goes on, and
the others wait for it in the next backward.

## What to do
Let all ranks do the same number of steps: repeat the stream without end and count steps, stop all at a number that the
shortest has, or put the loop inside of `Join`.

## How sure it is
Sure: a rank waits with a batch that the other never had, and both read a stream that was split by node. Loops inside of
`Join`, and loops that stop at a number of steps, are not held up and stay unmentioned.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import DATASETS, fetching, streams_of
from ...analysis.ranks import listed, told
from ...analysis.shares import Apart, Share, uneven
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Shards
from ...wording.settings import in_words_of
from ...wording.text import many, short
from ..rule import Level, rule

LEAVE_OUT = ("filter", "map", "take", "skip")  # steps after which a rank may have more or fewer samples than another


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("uneven-file-assignment",),
)
def check(case: Case) -> Iterator[Finding]:
    apart = uneven(case)
    if apart is None:
        return
    streams = {one.rank: found for one in (apart.one, *apart.behind) if (found := _split(case, one)) is not None}
    if apart.one.rank in streams and apart.first.rank in streams:
        yield _found(case, apart, streams)


def _split(case: Case, one: Share) -> Shards | None:
    known = streams_of(case, one.process, one.loader, DATASETS)
    return next((each for each in reversed(known) if each.splitter and (each.ranks or 1) > 1), None)


def _found(case: Case, apart: Apart, streams: dict[int, Shards]) -> Finding:
    few, first = apart.one, apart.first
    died = all(one.stand.death is not None for one in apart.behind)
    alone = len(apart.behind) == 1
    waits = "waited" if died else "waits" if alone else "wait"
    return case.finding(
        few.stand,
        cause=f"The streams of {few.loader.name}, shared out by {streams[few.rank].splitter}, are of different "
        f"lengths: rank {few.rank} had {_batches(few.loader)}{_went(few)}; {listed(one.rank for one in apart.behind)} "
        f"{'has' if alone else 'have'} batch {apart.batch:,} and {waits} for it in {first.stand.spot}"
        f"{', and died there' if died else ''}.",
        seen=[*told(apart.stands), *_seen(case, apart, streams)],
        remedy=_remedy(apart),
        rank=few.rank,
        onset_s=few.newest.ended if few.newest is not None else None,
        where=few.loader.created,
        subject=Subject("loader", few.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _batches(loader: Loader) -> str:
    passes = f" in {many(loader.passes, 'pass')}" if loader.passes > 1 else ""
    return (f"only {many(loader.batches, 'batch')}" if loader.batches else "not a single batch") + passes


def _went(one: Share) -> str:
    if one.stand.ended:
        return " and came to the end of the script"
    return f" and went on to {one.stand.spot}" if one.stand.waits else ""


def _seen(case: Case, apart: Apart, streams: dict[int, Shards]) -> Iterator[str]:
    for one in (apart.one, *apart.behind)[:4]:
        stream = streams.get(one.rank)
        samples = sum(each.samples for each in fetching(case, one.process, one.loader))
        state = "in the middle of a pass" if one.inside else "at the end of a pass"
        dealt = "" if stream is None else f", from {_dealt(stream)}"
        yield (
            f"rank {one.rank}, {state}: {many(one.loader.pass_batches, 'batch')} in it, {one.loader.batches:,} in all, "
            f"{many(samples, 'sample')}{dealt}"
        )
    steps = [step for step in streams[apart.one.rank].steps if step in LEAVE_OUT]
    if steps:
        yield f"on its way the stream goes through {' and '.join(dict.fromkeys(steps))}, which may leave samples out"


def _dealt(stream: Shards) -> str:
    if stream.of_rank == stream.total:
        return f"one sample in {stream.ranks} of {many(stream.total or 0, 'shard')}"
    return f"{stream.of_rank} of {many(stream.total or 0, 'shard')}"


def _remedy(apart: Apart) -> Remedy:
    few = apart.one
    steps = max(few.loader.pass_batches, 1)
    model = next((each.where for each in few.process.wrapped), None)
    of = f" of {short(model)}" if model is not None else ""
    islice = f"for batch in itertools.islice(loader, {steps})"
    counted = in_words_of(
        few.process,
        f"`{islice}`",
        lightning=f"Trainer(limit_train_batches={steps})",
        transformers=f"TrainingArguments(max_steps={steps})",
    )
    return Remedy(
        "Let every rank do the same number of steps, for nobody knows the length of a stream. Repeat it without end "
        f"(`dataset.repeat(None)`) and count: {counted}, or any other number that is the same on all ranks; without "
        f"repeating it can be {steps:,} at most, which is what the shortest had in this run. Or put the loop inside of "
        f"`with Join([model]):` (torch.distributed.algorithms.join) with the DDP model{of}."
    )
