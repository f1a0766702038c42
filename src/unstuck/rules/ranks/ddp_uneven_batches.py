"""The ranks have different numbers of batches: the one that has fewer went on, and the others wait for it for ever.

## What it looks at
How many batches each rank got from the same loader (made at the same line), pass by pass; which ranks are in the middle
of a pass and wait in a collective there, and which have come to the end of theirs. While the run goes on: the lengths
of these loaders, where a model is wrapped in DDP. Where nothing is recorded, the stacks of ranks that Lightning or
transformers' Trainer runs: who is in a batch, and who waits in what the trainer itself does after its batches.

## Why it happens
Every backward of DDP waits for the same backward of all other ranks. A rank that has one batch fewer never calls it:
files or rows that do not divide evenly, a filter, shards of different sizes, a sampler of one's own without padding.
The shorter rank goes on to a barrier, to validation, or to the end of the script; in the last case the others die of a
closed connection.

## What to do
Give all ranks the same number of batches (`DistributedSampler`, which pads or drops; `drop_last=True`), stop all of
them at the shortest, or wrap the loop in `Join`, which lets early ranks answer for the others.

## How sure it is
Sure where a rank waits with a batch that the other never had. By stacks alone it is likely; it is silent there if code
of the user's calls the collective, which may do so on one rank only. Before that, different lengths are only a warning:
a loop that stops all ranks by a count of its own gets along with them. It stays silent for loops inside of `Join`, once
a pass has ended unevenly and the run went on, and where ranks are seen to exchange single numbers, which may be an
agreement.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed, told
from ...analysis.shares import Apart, Share, lengths_apart, uneven
from ...analysis.side_work import hook_of
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import quoted_line
from ...wording.settings import framework_of, in_words_of
from ...wording.text import duration, many, short
from ..rule import Level, rule
from ._trainer_stacks import Parted, parted_in_trainer


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording|stacks",),
    level=Level.GENERAL,
    outranks=("collective-shape-mismatch", "straggler-rank"),
    predicts=True,
)
def check(case: Case) -> Iterator[Finding]:
    apart = uneven(case)
    if apart is not None:
        yield _stuck(case, apart)
        return
    seen = parted_in_trainer(case) if not case.ranks else None
    if seen is not None:
        yield _seems(case, seen)
        return
    for shares in lengths_apart(case):
        yield _will_be(case, shares)
        return


def _stuck(case: Case, apart: Apart) -> Finding:
    short_one, first = apart.one, apart.first
    died = all(one.stand.death is not None for one in apart.behind)
    alone = len(apart.behind) == 1
    cause = (
        f"{short_one.stand.name.capitalize()} had {_had(short_one)}{_went(short_one)}; "
        f"{listed(one.rank for one in apart.behind)} {'has' if alone else 'have'} batch {apart.batch:,} and "
        f"{'waited' if died else 'waits' if alone else 'wait'} for it in {first.stand.spot}"
        f"{', and died there' if died else ''}."
    )
    return case.finding(
        short_one.stand,
        cause=cause,
        seen=[*told(apart.stands), *_counts([short_one, *apart.behind])],
        remedy=_remedy([short_one, *apart.behind]),
        rank=short_one.rank,
        onset_s=_ended_at(short_one),
        where=apart.first.stand.where,
        subject=Subject("loader", short_one.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _seems(case: Case, parted: Parted) -> Finding:
    """From outside nobody has counted batches: the stacks alone."""
    few, first = parted.through[0], parted.inside[0]
    ranks, rest = listed(one.rank for one in parted.through), listed(one.rank for one in parted.inside)
    is_, waits = ("is", "waits") if len(parted.through) == 1 else ("are", "wait")
    return case.finding(
        few,
        cause=f"Uneven data: {ranks} {is_} through the epoch and {waits} in {parted.after}; {rest} still "
        f"{'has' if len(parted.inside) == 1 else 'have'} batches and {'waits' if len(parted.inside) == 1 else 'wait'} "
        f"in {first.call}.",
        seen=[
            *told([*parted.through, *parted.inside]),
            "these are calls that the trainer makes on every rank, with no condition of the user's around them",
            f"none of the ranks has run for {duration(parted.seconds)}",
        ],
        remedy=Remedy(
            "Give every rank the same number of batches: as many files and samples, none of them skipped by one rank "
            "alone. A recorded run has the batches of every rank, and what was not read.",
            [f"unstuck run -- {quoted_line(case.run.command) or 'COMMAND'}"],
        ),
        where=few.where,
        certainty=Certainty.LIKELY.value,
    )


def _had(one: Share) -> str:
    passes, batches = one.loader.passes, one.loader.batches
    each = one.loader.pass_batches
    if passes > 1 and each * passes == batches:
        return f"only {each:,} batches in each of its {passes:,} passes"
    had = f"only {many(batches, 'batch')}" if batches else "not a single batch"
    return had + (f" in {many(passes, 'pass')}" if passes > 1 else "")


def _went(one: Share) -> str:
    if one.stand.ended:
        return " and came to the end of the script"
    if not one.stand.waits:
        return ""
    hook = hook_of(one.stand)
    return f" and went on to {one.stand.spot}{f', in {hook.name}' if hook is not None else ''}"


def _counts(shares: list[Share]) -> Iterator[str]:
    """A line for each number of batches."""
    alike: dict[tuple[int, int, bool, int | None], list[int]] = {}
    for one in shares:
        key = one.loader.pass_batches, one.loader.batches, one.inside, one.loader.length
        alike.setdefault(key, []).append(one.rank)
    for (batches, in_all, inside, length), ranks in list(alike.items())[:4]:
        known = f", its length is {length:,}" if length is not None else ""
        state = "in the middle of a pass" if inside else "at the end of a pass"
        yield (
            f"{listed(ranks)}, {state} over {shares[0].loader.name}: {many(batches, 'batch')} in it, "
            f"{in_all:,} in all{known}"
        )


def _ended_at(one: Share) -> float | None:
    newest = one.newest
    return newest.ended if newest is not None else None


def _remedy(shares: list[Share]) -> Remedy:
    """A sampler that pads, a length that all agree on, or Join."""
    loader = shares[0].loader
    model = next((each.where for one in shares for each in one.process.wrapped), None)
    lengths = [one.loader.length for one in shares if one.loader.length is not None]
    # A length that a stream announces may be another than it has; what the short one had is known once it is through.
    lengths += [shares[0].loader.pass_batches] if shares[0].through and shares[0].loader.pass_batches else []
    steps = f"{min(lengths)}" if lengths else "STEPS"
    pads = loader.iterable or "DistributedSampler" in (loader.sampler or "")
    ways = [] if pads else ["share the dataset out with DistributedSampler, which pads"]
    ways.append(f"end all ranks at the shortest, {_at_the_shortest(shares[0], steps)}")
    if framework_of(shares[0].process) is None:  # a trainer's loop cannot be put into anything
        ways.append(
            "put the loop inside of `with Join([model]):` (torch.distributed.algorithms.join) with the DDP model"
            + (f" of {short(model)}" if model is not None else "")
        )
    return Remedy(f"Give every rank the same number of batches: {'; or '.join(ways)}.")


def _at_the_shortest(one: Share, steps: str) -> str:
    return in_words_of(
        one.process,
        f"for batch in itertools.islice(loader, {steps}), a number that all must know",
        lightning=f"Trainer(limit_train_batches={steps})",
        transformers="TrainingArguments(max_steps=…)",
    )


def _will_be(case: Case, shares: list[Share]) -> Finding:
    first, last = shares[0], shares[-1]
    name = first.loader.name
    longer = [one.rank for one in shares if one.loader.length != first.loader.length]
    return case.finding(
        first.stand,
        cause=f"Rank {first.rank} will get {first.loader.length:,} batches from {name}, {listed(longer)} up to "
        f"{last.loader.length:,}: at the end of the pass, who has more will wait in backward for ever, "
        "unless all leave the loop before.",
        seen=[f"the length of {name} is {one.loader.length:,} on rank {one.rank}" for one in shares[:4]]
        + ["every rank trains a DistributedDataParallel model on it, outside of Join"],
        remedy=_remedy(shares),
        rank=first.rank,
        where=first.loader.created,
        subject=Subject("loader", name),
        symptom=Symptom.WRONG.value,
    )
