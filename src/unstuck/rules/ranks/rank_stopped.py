"""One rank was stopped by a signal from outside, and the others ended because of it.

## What it looks at
How every rank ended, when, and what the launcher says. A launcher ends ranks itself (SIGTERM), but only after one of
them has ended. So the first rank that a signal ended, while the launcher had received none and no rank had failed, was
stopped by something else.

## Why it happens
`kill` with one rank's pid, a supervisor or a memory guard that picks the largest process, a batch system that signals
one task, a node that is drained.

## What to do
Look for what sent the signal to this process: the log of the node, not of the training. Resume from the checkpoint that
is named.

## How sure it is
Certain where the launcher names the rank as the first to end, or where all others lost their connection to it. Where
ranks of other nodes are not recorded it is silent: their launcher may have been told to go.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.rank_deaths import cascade, of_others, told_alone
from ...analysis.stops import checkpoint, coverage, covered, standstill
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, many, signal_name, who
from ..rule import Level, rule


@rule(explains=Symptom.STOPPED, certainty=Certainty.CERTAIN, needs=("recording", "exits"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for first in told_alone(case):
        if standstill(case, first.at) is not None:  # it was stopped because it was stuck
            return
        process, saved, found = first.process, covered(case, first.at), cascade(case)
        name, signal = who(process), signal_name(first.status or 0)
        others = len(found.others) + len(found.waiting) if found is not None else 0
        rest = "; the other rank died of that" if others == 1 else f"; the other {many(others, 'rank')} died of that"
        yield case.finding(
            process,
            cause=f"{name[:1].upper()}{name[1:]} alone was stopped by {signal} {duration(first.at)} after the start"
            f"{rest if others else ''}{checkpoint(case, saved)}.",
            seen=[
                f"{name} ended by {signal}, before any other rank and before the launcher received a signal",
                *(of_others(found) if found is not None else ()),
                *coverage(case, saved),
            ],
            remedy=Remedy(
                "Look for what sent the signal to this one process: a supervisor, a memory guard, a person; the log of "
                "its node names it." + (f" Resume from {saved.saved.path}." if saved is not None else "")
            ),
            onset_s=first.at,
        )
