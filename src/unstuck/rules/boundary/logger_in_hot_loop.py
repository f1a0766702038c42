"""The loop spends a good part of its time in a logger: in every step, or often enough that it shows.

## What it looks at
How long each call into wandb, TensorBoard, MLflow and each plain HTTP request took inside the loop's body, by the line
that makes it: calls, seconds a call, seconds a step, share of the loop. The longest call of each line is left aside,
because the first one often sets something up. Rows that are put into a wandb.Table one after the other are counted
together, as one burst. A call that does not come back at all is told by logger-no-answer.

## Why it happens
A scalar is cheap: wandb puts it into a queue and returns, `commit=True` (which is the default) or not. Costly is what
is done on the training's own thread: encoding images and tables, histograms of all weights (`wandb.watch`), a request
to a server that is waited for with every batch.

## What to do
Do it less often: what costs 100 ms in each of 4,000 batches is 400 s in every epoch. Media and histograms every few
hundred steps; scalars together, every 50 steps; requests outside the loop, or handed to `unstuck.nonblocking`.
`commit=False` is no remedy: without a step it makes wandb overwrite values.

## How sure it is
Sure of the times, they are measured in this run. It speaks from 15 % of the loop and 5 ms a step on; what is below is
an ordinary price. A run without the logger (`WANDB_MODE=disabled`) proves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case
from ...analysis.side_work import (
    HISTOGRAMS,
    MEDIA,
    REQUEST,
    WATCH,
    Loop,
    epoch,
    kind_of,
    library,
    loops,
    modes,
    sites,
    to_change,
    without_wandb,
)
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.settings import in_words_of
from ...wording.text import duration, many, percent, short
from ..rule import rule

SHARE = 0.15  # of the loop: what is less is not worth changing a program for
EACH = 0.005  # seconds a step: a handful of scalars stays below it even on a busy machine, whatever the step takes
SECONDS = 1.5  # in all: less may be chance
STEPS = 5
WORTH = 0.02  # share of the loop that logging may cost once it is done less often
POINTS = 10  # values of an epoch that are left: with fewer there is no curve any more
ASIDE = 0.02  # of what was spent: from then on the numbers of the lines do not add up without a word


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    slow = [loop for loop in loops(case) if _matters(loop)]
    if slow:
        yield _finding(case, max(slow, key=lambda loop: loop.spent))


def _matters(loop: Loop) -> bool:
    return loop.steps >= STEPS and loop.share >= SHARE and loop.each >= EACH and loop.spent >= SECONDS


def _finding(case: Case, loop: Loop) -> Finding:
    first = loop.parts[0]
    batches = epoch(loop.loader) if loop.loader is not None else None
    over = f" over {loop.loader.name}" if loop.loader is not None else ""
    cost = ""
    if batches:
        cost = f" An epoch of {many(batches, 'batch')} pays {batches:,} x {duration(loop.each)} = "
        cost += f"{duration(batches * loop.each)} for it."
    who = f" of rank {loop.main.rank}" if loop.main.rank is not None else ""
    others = f" and {many(len(loop.parts) - 1, 'other line')}" if len(loop.parts) > 1 else ""
    where = to_change(loop.main, first)
    spot = f" at {short(where)}" if where else ""
    return case.finding(
        loop.main,
        cause=f"The loop{over}{who} spends {percent(loop.share)} of its time in "
        f"{first.name}{spot}{others}: {duration(loop.each)} of every step.{cost}",
        seen=[
            *sites(loop.parts),
            *_aside(loop),
            f"{many(loop.steps, 'step')} took {duration(loop.looped)}, {duration(loop.rest)} each without that",
            *([modes(loop.main)] if loop.main.loggers else []),
        ],
        remedy=_remedy(case, loop),
        where=where,
        subject=Subject("logger", library(first.name) or first.name),
    )


def _aside(loop: Loop) -> Iterator[str]:
    if loop.aside >= ASIDE * loop.spent:
        yield (
            f"the longest call of each line, {duration(loop.aside)} together, is left out of the share and the steps: "
            "it may have set something up"
        )


def _remedy(case: Case, loop: Loop) -> Remedy:
    kinds: dict[str, float] = {}
    for part in loop.parts:
        kinds[kind_of(part)] = kinds.get(kind_of(part), 0.0) + part.seconds
    kind = max(kinds, key=lambda one: kinds[one])
    # wandb makes images even where it is disabled: that run would prove nothing.
    wandb = kind != MEDIA and "wandb" in {library(one.name) for one in loop.parts}
    commands = [without_wandb(case)] if wandb else []
    proof = " To prove it, run once without wandb:" if commands else ""
    return Remedy(f"{_advice(kind, loop)}{proof}", commands)


def _every(loop: Loop) -> int | None:
    """Steps between two calls: so many that they cost no more than is worth it, so few that a curve is left of them."""
    most = (_epoch(loop) or loop.steps) // POINTS
    wanted = _wanted(loop)
    if wanted <= most:
        return wanted
    return most - most % 10 if most >= 10 else most if most > 1 else None


def _epoch(loop: Loop) -> int | None:
    """Steps of an epoch. A run that ended within its first one may never make a whole one: then nothing is known."""
    loader = loop.loader
    return None if loader is None or (loop.main.ended is not None and not loader.ended) else epoch(loader)


def _wanted(loop: Loop) -> int:
    """A round number."""
    often = max(part.count for part in loop.parts) / loop.steps
    wanted = loop.each / max(loop.rest * WORTH, 1e-6) / max(min(often, 1.0), 1e-3)
    digits: int = 10 ** max(len(str(ceil(wanted))) - 1, 1)
    return min(ceil(wanted / digits) * digits, 10_000)


def _seldom(loop: Loop) -> str:
    every = _every(loop)
    if every is not None:
        return f"every {every:,} steps"
    return "once an epoch" if _epoch(loop) else "every few steps"


def _advice(kind: str, loop: Loop) -> str:
    name, every, seldom = loop.parts[0].name, _every(loop), _seldom(loop)
    own = f"`if step % {every} == 0:`"
    steps = in_words_of(
        loop.main,
        own,
        lightning=f"Trainer(log_every_n_steps={every}), or {own}",
        transformers=f"TrainingArguments(logging_steps={every})",
    )
    test = f" ({steps})" if every is not None else ""
    if kind == MEDIA:
        smaller = ' wandb.Image(..., file_type="jpg") encodes faster than png.' if name == "wandb.Image" else ""
        what = "tables" if name.startswith("wandb.Table") else "images and the like"
        return f"Log {what} {seldom}{test}, fewer or smaller.{smaller}"
    if kind == HISTOGRAMS:
        watched = f": wandb.watch(model, log_freq={every or '…'})" if name == WATCH else test
        return f"Compute histograms {seldom}{watched}."
    if kind == REQUEST:
        return (
            f"Do not wait for an answer in every step. Collect the values and send them {seldom}, or give the client "
            "to unstuck.nonblocking(client), which sends from a thread of its own."
        )
    queued = " mlflow.config.enable_async_logging() makes MLflow do so itself." if name.startswith("mlflow") else ""
    return (
        f"Log {seldom}, all values in one call; or hand the logger's calls to a thread with "
        f"logger = unstuck.nonblocking(logger).{queued} commit=False does not help, it loses rows."
    )
