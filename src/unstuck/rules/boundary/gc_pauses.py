"""Python's garbage collector stops the training again and again, for a large share of its time.

## What it looks at
Every pause of the garbage collector in a main process that took a millisecond or more, measured by the collector's own
callbacks, against the time for which the run has trained; and after which batches the longest came. Pauses before the
first loop, and while something is being compiled, are set-up and left out.

## Why it happens
A collection goes through every container object there is: with millions of them (samples kept as dicts, lists of
tuples, a parsed index) each full one takes a tenth of a second to seconds, during which nothing else of Python runs.
They come when many objects are made, and whenever the code calls `gc.collect()`, which is often put into a loop beside
`torch.cuda.empty_cache()`. On several ranks they come at different times, and every rank waits for each of them.

## What to do
Once everything is set up, call `gc.collect(); gc.freeze()`: what is there by then is never gone through again. Take
`gc.collect()` out of the loop. Keep samples in arrays or tensors rather than in Python objects. Where Python itself
collects so often, `gc.disable()` and collect at the end of every epoch, on all ranks at the same step: against calls in
the loop that does nothing.

## How sure it is
Certain of the pauses. It speaks from a tenth of the run and a second on. Whether the code or Python itself asked for a
collection is told by how regularly they came, not seen: after every batch, or after every sixth and no other. Its line
is told only where the watcher met the training there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from ...analysis.case import Case
from ...analysis.glances import glances_of, lines_of
from ...analysis.loading import lasted
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.loader import COLLECTION, Call, Gap, Loader
from ...evidence.process import Process
from ...wording.text import duration, line, many, percent, short, who
from ..rule import rule

SHARE = 0.1  # of the run
SECONDS = 1.0  # in all: less nobody notices
TIMES = 5  # fewer are set-up
EVERY_STEP = 0.8  # of the steps: Python itself is not that regular
DISTANCES = 5  # in batches from pause to pause, all multiples of one: one time in thirty they are so by chance
LOOKS = 2  # that met the training at the same line in such a pause: one alone may be a moment late


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("logger-in-hot-loop",))
def check(case: Case) -> Iterator[Finding]:
    for process in sorted(case.mains, key=lambda one: -one.collecting.total)[:1]:
        ran, took = lasted(process), process.collecting
        if took.count < TIMES or took.total - took.longest < max(SECONDS, SHARE * ran):  # one alone may be set-up
            continue
        batches = sum(loader.batches for loader in process.loaders)
        asked = _asked(process)
        every = _every(process, batches) if asked is None else max(round(batches / asked.timing.count), 1)
        where = asked.where if asked is not None else _asked_at(case, process) if every else None
        yield case.finding(
            process,
            cause=f"{percent(took.total / ran)} of the run goes into collecting garbage: {who(process)} stood still "
            f"{many(took.count, 'time')} for it, {duration(took.mean)} each time.",
            seen=list(_seen(process, ran, batches, where)),
            remedy=_remedy(every, where),
            where=where,
            share=took.total / ran,
        )


def _asked(process: Process) -> Call | None:
    """The line that calls gc.collect() itself, if most of the time goes into that."""
    calls = [one for one in process.calls if one.what == COLLECTION and one.where is not None]
    most = max(calls, key=lambda one: one.timing.total, default=None)
    return most if most is not None and 2 * most.timing.total > process.collecting.total else None


def _every(process: Process, batches: int) -> int | None:
    """After every how many batches there was one; None: they came as Python's own do."""
    if batches and process.collecting.count >= EVERY_STEP * batches:
        return 1
    regular = [_distance(loader) for loader in process.loaders]
    return next((one for one in regular if one > 1), None)


def _distance(loader: Loader) -> int:
    """The greatest number of batches of which all distances are multiples. Numbers begin anew with each pass."""
    numbers = [one.number for one in _paused(loader)]
    distances = [later - one for one, later in pairwise(numbers) if later > one]
    return math.gcd(*distances) if len(distances) >= DISTANCES else 0


def _paused(loader: Loader) -> list[Gap]:
    """The longest times between two batches, of those that mostly went into collecting."""
    return [
        gap for gap in loader.gaps if sum(one.seconds for one in gap.parts if one.what == COLLECTION) > gap.seconds / 2
    ]


def _asked_at(case: Case, process: Process) -> Place | None:
    """Where most looks in such pauses met it."""
    gaps = [gap for loader in process.loaders for gap in _paused(loader)]
    lines = lines_of([one for gap in gaps for one in glances_of(case, process, gap.at, gap.at + gap.seconds)])
    met = sum(count for _, count in lines)
    return lines[0][0] if lines and lines[0][1] >= LOOKS and 2 * lines[0][1] > met else None


def _seen(process: Process, ran: float, batches: int, where: Place | None) -> Iterator[str]:
    took = process.collecting
    yield f"{many(took.count, 'pause')} of the garbage collector took {duration(took.total)} of {duration(ran)}"
    yield f"the longest took {duration(took.longest)}"
    if batches:
        yield f"{many(batches, 'batch')} were gone through meanwhile"
    asked = _asked(process)
    if asked is not None:
        yield f"{many(asked.timing.count, 'call')} of gc.collect() at {line(asked.where)}"
    elif where is not None:
        yield f"most looks during a pause met it at {line(where)}"
    large = {name: count for loader in process.loaders for name, count in loader.containers.items() if count > 100_000}
    for name, count in list(large.items())[:1]:
        yield f"`{name}` of the dataset has {many(count, 'item')}"


def _remedy(every: int | None, where: Place | None) -> Remedy:
    freeze = (
        "Once model and data are set up, take what is there out of the collector's way: `gc.collect(); gc.freeze()`."
    )
    if every is None:
        return Remedy(
            f"{freeze} If that does not suffice, `gc.disable()`, and `gc.collect()` at the end of each epoch, on all "
            "ranks at the same step."
        )
    often = "one for nearly every batch" if every == 1 else f"about one in {every} batches, regularly"
    spot = f" ({short(where)})" if where is not None else ""
    text = f"There is {often}: look for gc.collect() in the loop{spot}, and call it once an epoch instead."
    return Remedy(f"{text} {freeze}")
