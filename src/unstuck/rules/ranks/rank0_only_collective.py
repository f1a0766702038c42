"""Only some ranks call a collective; the others never come to it, or pair it with another of theirs.

## What it looks at
The collectives of every rank in their order, with the user's line of each, as torch's Flight Recorder has them: the
first that one side calls and the other does not. After a crash in native code, which keeps no record: the line it was
at, and how far the other ranks had come.

## Why it happens
A barrier, a gather, a reduction, saving of a sharded checkpoint or a forward of the DDP model stands under `if rank ==
0:`, or under a condition that only some ranks meet. Collectives pair by order: the call waits for ever, or is paired
with the next one of the others, and it hangs, crashes or computes nonsense later.

## What to do
Call it on all ranks and keep only the work of one rank under the condition. For a forward on one rank use the model
inside, `model.module(...)`, which talks to nobody.

## How sure it is
Sure about who called what. Where the ranks agree again once the call is left out, or no other rank ever calls that
line, it is sure which call is too many; where neither can be seen, it takes the one of the rank that came less far.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import entry_name, listed, told
from ...analysis.shares import Alone, alone
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many, short
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = alone(case)
    if found is None or found.in_validation:
        return
    first, who = found.parting.first, found.who
    place = f" at {short(first.where)}" if first.where is not None else ""
    yield case.finding(
        who,
        cause=f"{listed(found.parting.ranks).capitalize()} called {found.call}{place}, {listed(found.parting.others)} "
        f"did not{_instead(found)}.",
        seen=list(_seen(found)),
        remedy=_remedy(found),
        onset_s=first.at,
        where=first.where,
        symptom=(Symptom.CRASHED if any(one.death is not None for one in found.stands) else Symptom.STUCK).value,
    )


def _instead(found: Alone) -> str:
    other, they = found.parting.instead, "they" if len(found.others) > 1 else "it"
    if other is not None:
        place = f" at {short(other.where)}" if other.where is not None else ""
        return f": in its place {they} called {entry_name(other)}{place}"
    ended = all(one.ended for one in found.others)
    return f": {they} had come to the end" if ended else ""


def _seen(found: Alone) -> Iterator[str]:
    parting = found.parting
    yield from told(found.stands)
    if parting.first.sequence:
        yield f"up to collective {parting.first.sequence - 1:,} of their sequence all ranks called the same"
    if len(parting.extra) > 1:
        yield f"{many(len(parting.extra), 'collective')} in a row were called by {listed(parting.ranks)} alone"
    if parting.pairs:
        yield f"left out, the next {many(parting.pairs, 'collective')} of all ranks agree again, one number apart"


def _remedy(found: Alone) -> Remedy:
    first, ranks = found.parting.first, found.parting.ranks
    place = short(first.where) if first.where is not None else "that line"
    if found.call == "forward":
        return Remedy(
            f"At {place} use the model inside: model.module(...) talks to no other rank. Or let all ranks make this "
            "forward."
        )
    if found.known:
        return Remedy(
            f"Every rank came to {place} before; look for what kept {listed(found.parting.others)} from it this time: "
            "a condition, `break` or `return` that depends on what one rank alone knows. Let all ranks decide together."
        )
    function = f" (in {first.where.function})" if first.where is not None and first.where.function else ""
    return Remedy(
        f"Take {found.call} at {place}{function} out of the condition that only {listed(ranks)} "
        f"meet{'s' * (len(ranks) == 1)}: call it on all ranks, and keep only the work of one rank, such as writing a "
        "file, under `if rank == 0:`." + _or_left(found)
    )


def _or_left(found: Alone) -> str:
    """In the middle of a pass, it may also have broken out of the loop."""
    if found.phase is None or found.phase.ended is not None or found.phase.loader is None:
        return ""
    return (
        f" If it stands after the loop, {listed(found.parting.ranks)} left the loop early: decide that together, too."
    )
