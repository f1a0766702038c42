"""The loop waits until a terminal or a pipe takes what it prints.

## What it looks at
In how many looks at the main thread it was in a write to a terminal or a pipe while the loop ran, and at which line.

## Why it happens
A terminal over a slow connection, `tee` on a slow disk, or a program at the other end of a pipe takes text more slowly
than the training prints it. Once the buffer between them is full (64 KiB of a pipe), every print waits. A progress bar
that is drawn for every batch is enough.

## What to do
Print less often, or print into a file and follow it with `tail -f`.

## How sure it is
Each look is a moment: it speaks from four of them on, and from a quarter of all. A reader that has stopped for good is
told by stdout-pipe-full.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.glances import Writing, writing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import many, percent, short
from ..rule import rule


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("recording", "host"))
def check(case: Case) -> Iterator[Finding]:
    for slow in writing(case):
        yield _finding(case, slow)
        return


def _finding(case: Case, slow: Writing) -> Finding:
    who = f" of rank {slow.main.rank}" if slow.main.rank is not None else ""
    spot = f" at {short(slow.where)}" if slow.where is not None else ""
    return case.finding(
        slow.main,
        cause=f"The loop{who} waits {percent(slow.share)} of the time{spot} until {slow.target} takes what it prints.",
        seen=[
            f"in {slow.blocked} of {many(slow.looks, 'look')} the main thread was in a write to {slow.target}",
            *([f"{slow.caller} was what wrote"] if slow.caller else []),
        ],
        remedy=Remedy(
            "Print less: every hundredth step, tqdm(..., mininterval=1.0) or disable=True, logging at a higher level; "
            f"or let the output go to a file instead of {slow.target}, and follow it with tail -f."
        ),
        where=slow.where,
        subject=Subject("output", slow.target),
    )
