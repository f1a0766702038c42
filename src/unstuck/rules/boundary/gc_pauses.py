"""Python's garbage collector pauses the training again and again, for a large share of its time.

## It means
A collection visits every container object: with millions of them (samples kept as dicts, lists of tuples, a parsed
index) each full collection takes a tenth of a second to seconds, in which no other Python code runs. Collections come
when many objects are made, and whenever the code calls `gc.collect()`, which is often put into a loop next to
`torch.cuda.empty_cache()`. On several ranks they come at different times, and every rank waits for each of them.

## Fix
Take `gc.collect()` out of the loop, and freeze what exists after setup: the collector never visits it again.

```python
for batch in loader:  # before
    train_step(batch)
    gc.collect()
```

```python
gc.collect()  # after: once, when model and data are set up
gc.freeze()
for batch in loader:
    train_step(batch)
```

Keep samples in arrays or tensors rather than in Python objects. Where Python itself collects that often, call
`gc.disable()` once and `gc.collect()` at the end of every epoch, on all ranks at the same step. That needs memory for
the garbage of an epoch, and does nothing against calls in the loop.

## Check it yourself

```python
import gc
import time


def timed(phase, info, begun=[0.0]):
    if phase == "start":
        begun[0] = time.perf_counter()
    else:
        print(f"generation {info['generation']}: {time.perf_counter() - begun[0]:.3f} s")


gc.callbacks.append(timed)
print(len(gc.get_objects()), "container objects")
```

## Not this, if
- the pauses come before the first loop or while something is compiled: that is setup
- one pause in many steps is a checkpoint: [slow-checkpoint](slow-checkpoint.md)
- steps pause because a logger waits: [logger-in-hot-loop](logger-in-hot-loop.md)

## How sure
Judged from every pause of a millisecond or more in a main process, measured by the collector's own callbacks, against
the time for which the run has trained; and after which batches the longest came. Pauses before the first loop, and
while something is compiled, are left out. Certain of the pauses. It speaks from a tenth of the run and a second on.
Whether the code or Python itself asked for a collection is concluded, unless the call was recorded, from how regularly
they came: after every batch, or after every sixth and no other. The line is named only where it was recorded or where
the watcher found the training there.

## Seen in
- https://github.com/pytorch/torchtitan/pull/148: collecting on a fixed schedule on all ranks against stragglers
- https://github.com/huggingface/peft/pull/2894: without gc.collect() in every step a script took 65 s instead of 108 s
- https://github.com/pytorch/torchtitan/issues/696: why ranks should collect at the same time
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
from ...wording.text import duration, line, many, percent, short
from ..rule import rule

SHARE = 0.1  # of the run
SECONDS = 1.0  # in all: less is not noticed
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
        remedy, *others = _remedies(every, where)
        yield case.finding(
            process,
            cause=f"{percent(took.total / ran)} of the run is Python garbage collection: "
            f"{_why(took.mean, every, asked)}.",
            seen=list(_seen(process, ran, batches, every, where)),
            remedy=remedy,
            alternatives=others,
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
    """The greatest number of batches of which all distances are multiples. Numbers start again with each epoch."""
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


def _why(mean: float, every: int | None, asked: Call | None) -> str:
    """How the pauses come: by a call that was recorded, or regularly, or as Python decides."""
    often = f"every step, {duration(mean)} each" if every == 1 else f"about every {every} steps"
    if asked is not None:
        return f"gc.collect() is called {often}"
    if every is not None:
        return f"it pauses training {often}"
    return f"it pauses training again and again, {duration(mean)} each"


def _seen(process: Process, ran: float, batches: int, every: int | None, where: Place | None) -> Iterator[str]:
    took = process.collecting
    paused = f"{many(took.count, 'pause')} took {duration(took.total)} of {duration(ran)}"
    yield f"{paused}, the longest {duration(took.longest)}"
    asked = _asked(process)
    if asked is not None:
        yield f"{many(asked.timing.count, 'call')} of gc.collect() at {line(asked.where)}"
    elif every is not None:
        often = "nearly every batch" if every == 1 else f"about one in {every} batches, regularly"
        yield f"pauses came after {often}: Python's own collections are not that regular"
        if where is not None:
            yield f"most samples during a pause found the main thread at {line(where)}"
    if batches:
        yield f"{many(batches, 'batch')} in that time"
    large = {name: count for loader in process.loaders for name, count in loader.containers.items() if count > 100_000}
    for name, count in list(large.items())[:1]:
        yield f"`{name}` of the dataset has {many(count, 'item')}"


def _remedies(every: int | None, where: Place | None) -> list[Remedy]:
    freeze = Remedy(
        "Freeze what exists after setup: the collector then skips it",
        code=["gc.collect()", "gc.freeze()  # once, before the first epoch"],
    )
    if every is None:
        disable = Remedy(
            "Collect at the end of each epoch only, on all ranks at the same step, if memory allows",
            code=["gc.disable()", "gc.collect()  # at the end of each epoch"],
        )
        return [freeze, disable]
    spot = f" ({short(where)})" if where is not None else ""
    return [Remedy(f"Remove gc.collect() from the loop{spot}, or call it once per epoch"), freeze]
