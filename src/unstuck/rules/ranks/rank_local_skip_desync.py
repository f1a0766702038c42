"""One rank left a batch out by its own decision: since then its steps meet other steps of the other ranks.

## What it looks at
Batches and optimizer steps of each rank, pass by pass, over the same loader: a rank that is through a batch and has not
made the step that the others want to make with theirs. And torch's Flight Recorder: at which number of its sequence
each rank began the same pass.

## Why it happens
`continue` on a loss that is not finite, on a bad or overlong batch, `break` or early stopping by a value that only this
rank has. Collectives pair by order: the next backward of that rank is paired with the one the others are in, gradients
of different steps are averaged, and at the end one rank has a step left and no partner for it.

## What to do
Decide together: reduce the flag with MAX over all ranks, and let all skip or none. Or keep in step: run backward on a
loss that is multiplied by zero.

## How sure it is
Sure where a rank waits to make a step that another has left out. While the run goes on it speaks only where ended
passes with equal batches have different steps and the sequence numbers of the ranks differ, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed, stand, told
from ...analysis.shares import Apart, Share, Shift, shifted, skipped
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import many
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    apart = skipped(case)
    if apart is not None:
        yield _stuck(case, apart)
        return
    shift = shifted(stand(case))
    if shift is not None:
        yield _goes_on(case, shift)


def _stuck(case: Case, apart: Apart) -> Finding:
    one, first = apart.one, apart.first
    died = all(each.stand.death is not None for each in apart.behind)
    return case.finding(
        one.stand,
        cause=f"{one.stand.name.capitalize()} {_did(one)}. {_others(apart, died=died)}",
        seen=[*told(apart.stands), *_counts([one, *apart.behind])],
        remedy=_remedy(),
        rank=one.rank,
        where=first.stand.where,
        subject=Subject("loader", one.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _did(one: Share) -> str:
    steps = many(one.process.optimizer_steps, "step")
    if one.left:
        return f"broke out of its loop after {many(one.loader.batches, 'batch')} and {steps}"
    return f"made {steps} with {many(one.loader.batches, 'batch')}: it left at least one out by itself"


def _others(apart: Apart, *, died: bool) -> str:
    first, count = apart.first, len(apart.behind)
    waits = "waited" if died else "waits" if count == 1 else "wait"
    return (
        f"{listed(one.rank for one in apart.behind).capitalize()} made {many(first.process.optimizer_steps, 'step')} "
        f"with {first.loader.batches - 1:,} and {waits} with the next batch in {first.stand.spot}, for a partner that "
        f"{'did' if died else 'does'} not come."
    )


def _counts(shares: list[Share]) -> Iterator[str]:
    for one in shares[:4]:
        yield (
            f"rank {one.rank}: {many(one.loader.batches, 'batch')} from {one.loader.name}, "
            f"{many(one.process.optimizer_steps, 'step')}, {'in' if one.inside else 'through'} pass "
            f"{one.loader.passes:,} with {many(one.loader.pass_batches, 'batch')} of it"
        )


def _goes_on(case: Case, shift: Shift) -> Finding:
    one, other = shift.fewer, shift.more
    return case.finding(
        one.stand,
        cause=f"{one.stand.name.capitalize()} made {many(shift.steps[0], 'step')} with the {shift.batches:,} batches "
        f"of pass {shift.number:,}, rank {other.rank} made {shift.steps[1]:,}: since then every step averages "
        "gradients of different steps, and at the end one rank will have no partner.",
        seen=[
            f"pass {shift.number:,} over {one.loader.name} had {shift.batches:,} batches on both",
            f"after pass {shift.seen_at:,}, rank {one.rank} went on with collective {shift.begins[0]:,} of its "
            f"sequence, rank {other.rank} with {shift.begins[1]:,}",
        ],
        remedy=_remedy(),
        rank=one.rank,
        where=one.loader.reads_at or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=Symptom.WRONG.value,
    )


def _remedy() -> Remedy:
    return Remedy(
        "Look for a `continue`, `break` or `return` in the loop that depends on what one rank alone knows, and let all "
        "ranks decide together before the backward: bad = torch.tensor(float(not torch.isfinite(loss)), "
        "device=loss.device); dist.all_reduce(bad, dist.ReduceOp.MAX); if bad: continue",
    )
