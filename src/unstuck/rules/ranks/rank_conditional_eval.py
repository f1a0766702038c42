"""Only some ranks validate, and validation has a collective in it: they wait there for ranks that never come.

## What it looks at
The first collective that one side of the ranks calls and the other does not, by torch's Flight Recorder; and in which
phase each rank was at that moment: a validation that the others never entered.

## Why it happens
Validation stands under a condition that differs between ranks: only who has a progress bar or a logger, `if rank ==
0:`, a metric that only one rank has. A reduction or gather of the metrics inside, or a forward of the DDP model with
buffers, needs all of them.

## What to do
Let all ranks validate, each its part, and reduce the sums. Or let one rank validate all alone, with `model.module` and
without any collective, while the others wait at a barrier after it.

## How sure it is
Sure about who called what, and that the others were in no validation. What counts as one: evaluation mode, `no_grad`,
a loader without optimizer steps, or `unstuck.phase("validation")`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed, told
from ...analysis.shares import Alone, alone
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many, short
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = alone(case)
    if found is None or not found.in_validation or found.phase is None:
        return
    first, who, ranks = found.parting.first, found.who, found.parting.ranks
    place = f" at {short(first.where)}" if first.where is not None else ""
    yield case.finding(
        who,
        cause=f"Only {listed(ranks)} validate{'s' * (len(ranks) == 1)} after epoch {found.phase.number}, and called "
        f"{found.call}{place} there; {listed(found.parting.others)} went on without and never came to it.",
        seen=list(_seen(found)),
        remedy=_remedy(found),
        onset_s=first.at,
        where=first.where,
        symptom=(Symptom.CRASHED if any(one.death is not None for one in found.stands) else Symptom.STUCK).value,
    )


def _seen(found: Alone) -> Iterator[str]:
    yield from told(found.stands)
    phase, parting = found.phase, found.parting
    if phase is not None:
        yield f"validation of epoch {phase.number} on rank {found.who.rank}: {many(phase.batches, 'batch')}"
    yield f"{listed(parting.others)}: no validation of that epoch"
    if parting.first.sequence:
        yield f"up to collective {parting.first.sequence - 1:,} of their sequence all ranks called the same"


def _remedy(found: Alone) -> Remedy:
    first = found.parting.first
    place = short(first.where) if first.where is not None else "that line"
    inside = "use model.module(...), and " if found.call == "forward" else ""
    return Remedy(
        f"Let all ranks validate, each on its part of the data, so that {found.call} at {place} has its partners. Or "
        f"validate on {listed(found.parting.ranks)} alone: {inside}take that collective out, and let all ranks meet at "
        "a dist.barrier() after it."
    )
