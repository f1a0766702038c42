"""The next epoch waits for a logger: what lies between two passes goes into uploads, artifacts or a flush.

## What it looks at
How long it took from the end of each pass over a loader to the first batch of the next, and how much of that went into
calls of wandb, TensorBoard, MLflow or plain HTTP requests, by the line that makes them. A call that does not come back
is told by logger-no-answer.

## Why it happens
At the end of an epoch there is more to log than in a step: images, tables, a checkpoint as an artifact, all rows that
were collected, a flush. Where this is sent from the training's own thread, the training waits for the network; on a
run of several ranks, all of them wait for the one that logs. Logging every batch cannot by itself stop the end of an
epoch: that is the same price in every step, and another rule tells it.

## What to do
Send it from a thread (`unstuck.nonblocking`), or at the end of the run; keep artifacts local and upload them later.

## How sure it is
Sure of the times, they are measured in this run. It speaks from one second a boundary and a tenth of the run on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...analysis.side_work import LOGGING, at_boundaries, library, modes, sites, without_wandb
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Part
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short
from ..rule import rule

EACH = 1.0  # seconds a boundary: what is shorter nobody notices
SHARE = 0.1  # of the run
WORTH = 0.01  # of what loggers took there: short calls are not all counted, and matter to nobody


class Boundaries(NamedTuple):
    """What loggers took between the passes over one loader."""

    main: Process
    loader: Loader
    seconds: float
    gaps: float
    passes: int
    parts: list[Part]


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = [one for main in case.mains for loader in main.loaders if (one := _boundaries(main, loader))]
    slow = [one for one in found if one.seconds / one.passes >= EACH and one.seconds >= SHARE * lasted(one.main)]
    if slow:
        yield _finding(case, max(slow, key=lambda one: one.seconds))


def _boundaries(main: Process, loader: Loader) -> Boundaries | None:
    known = at_boundaries(loader)
    seconds = sum(spent for _, spent in known)
    if not seconds:
        return None
    parts: dict[tuple[str, object], Part] = {}
    for gap, _ in known:
        for one in gap.parts:
            if one.what in LOGGING:
                key = (one.name, one.where)
                before = parts.get(key)
                total, count = (before.seconds, before.count) if before else (0.0, 0)
                parts[key] = Part(one.what, one.name, total + one.seconds, count + one.count, one.where)
    worth = [one for one in parts.values() if one.seconds >= WORTH * seconds]
    ordered = sorted(worth, key=lambda one: -one.seconds)
    return Boundaries(main, loader, seconds, sum(gap.seconds for gap, _ in known), len(known), ordered)


def _finding(case: Case, one: Boundaries) -> Finding:
    first, each = one.parts[0], one.seconds / one.passes
    spot = f" at {short(first.where)}" if first.where else ""
    who = f" of rank {one.main.rank}" if one.main.rank is not None else ""
    others = f" and {many(len(one.parts) - 1, 'other line')}" if len(one.parts) > 1 else ""
    wandb = any(library(part.name) == "wandb" for part in one.parts)
    return case.finding(
        one.main,
        cause=f"Between two passes over {one.loader.name}{who} the training waits {duration(each)} for "
        f"{first.name}{spot}{others}: {duration(one.seconds)} after {many(one.passes, 'pass')}, "
        f"{percent(one.seconds / max(lasted(one.main), 1e-9))} of the run.",
        seen=[
            f"from one pass to the next it took {duration(one.gaps / one.passes)} on average, "
            f"{duration(each)} of that in loggers",
            *sites(one.parts),
            *([modes(one.main)] if one.main.loggers else []),
        ],
        remedy=Remedy(
            "Let a thread send it: logger = unstuck.nonblocking(logger) takes the calls and lets the next epoch begin. "
            "What is large (artifacts, tables, images) can wait until the training is done."
            + (" To prove it, run once without wandb:" if wandb else ""),
            [without_wandb(case)] if wandb else [],
        ),
        where=first.where,
        subject=Subject("logger", library(first.name) or first.name),
    )
