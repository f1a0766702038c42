"""Python's garbage collector stops the training again and again, for a large share of its time.

## What it looks at
Every pause of the garbage collector in a main process that took a millisecond or more, measured by the collector's own
callbacks, against the time for which the run has trained. Pauses before the first loop, and while something is being
compiled, are set-up and left out.

## Why it happens
A collection goes through every container object there is: with millions of them (samples kept as dicts, lists of
tuples, a parsed index) each full one takes a tenth of a second to seconds, during which nothing else of Python runs.
They come when many objects are made, and whenever the code calls `gc.collect()`, which is often put into a loop beside
`torch.cuda.empty_cache()`. On several ranks they come at different times, and every rank waits for each of them.

## What to do
Once everything is set up, call `gc.collect(); gc.freeze()`: what is there by then is never gone through again. Take
`gc.collect()` out of the loop. Keep samples in arrays or tensors rather than in Python objects. Or `gc.disable()` and
collect at the end of every epoch, on all ranks at the same step.

## How sure it is
Certain of the pauses. It speaks from a tenth of the run and a second on. Whether the code or Python itself asked for a
collection is told by how often they came, not seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.evidence import Evidence
from ...model.phrases import duration, many, percent, who
from ...model.recorded import Process
from ...model.report import Finding, Remedy, Symptom
from ...model.rule import rule
from ...model.timing import Timing
from ...model.waiting import lasted

SHARE = 0.1  # of the run
SECONDS = 1.0  # in all: less nobody notices
TIMES = 5  # fewer are set-up
EVERY_STEP = 0.8  # of the steps: Python itself is not that regular


@rule(
    explains=Symptom.SLOW,
    needs=("recording",),
    outranks=("dataloader-bound", "epoch-boundary-gap", "straggler-rank", "logger-in-hot-loop"),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    for process in sorted(evidence.mains(), key=lambda one: -one.collecting.total)[:1]:
        ran, took = lasted(process), process.collecting
        if took.count < TIMES or took.total < max(SECONDS, SHARE * ran):
            continue
        batches = sum(loader.batches for loader in process.loaders)
        yield Finding(
            cause=f"{percent(took.total / ran)} of the run goes into collecting garbage: {who(process)} stood still "
            f"{many(took.count, 'time')} for it, {duration(took.mean)} each time.",
            seen=list(_seen(process, ran, batches)),
            remedy=_remedy(took, batches),
            node=process.node,
            rank=process.rank,
            pid=process.pid,
        )


def _seen(process: Process, ran: float, batches: int) -> Iterator[str]:
    took = process.collecting
    yield f"{many(took.count, 'pause')} of the garbage collector took {duration(took.total)} of {duration(ran)}"
    yield f"the longest took {duration(took.longest)}"
    if batches:
        yield f"{many(batches, 'batch')} were gone through meanwhile"
    large = {name: count for loader in process.loaders for name, count in loader.containers.items() if count > 100_000}
    for name, count in list(large.items())[:1]:
        yield f"the dataset's {name} holds {many(count, 'item')}"


def _remedy(took: Timing, batches: int) -> Remedy:
    freeze = "Once model and data are set up, take what is there out of the collector's way (below)."
    if batches and took.count >= EVERY_STEP * batches:
        text = "There is one for nearly every batch: if the loop calls gc.collect(), do so once an epoch instead."
        return Remedy(f"{text} {freeze}", ["gc.collect(); gc.freeze()"])
    return Remedy(
        f"{freeze} If that does not suffice, gc.disable(), and gc.collect() at the end of each epoch, on all ranks at "
        "the same step.",
        ["gc.collect(); gc.freeze()"],
    )
