"""Much of the run is spent between epochs, from one epoch's last batch to the next one's first.

## It means
Whatever is done once an epoch is done here: callbacks that upload or copy files, wait for a process, sleep,
synchronize or plot; workers that are stopped and started again; checkpoints; garbage collection. Each is small, and
together they may be half of a short epoch. The GPU is idle all that time.

## Fix
Begin with the part that takes most of it, which is named. Workers can stay:

```python
for epoch in range(epochs):  # before: new workers for every epoch
    loader = DataLoader(dataset, num_workers=8)
    train(loader)
```

```python
loader = DataLoader(dataset, num_workers=8, persistent_workers=True)  # after: made once
for epoch in range(epochs):
    train(loader)
```

What only writes or sends can run in a thread while the next epoch trains; what is not needed every epoch can be done
every tenth:

```python
copying = executor.submit(copy_results, epoch)  # after the epoch
...
copying.result()  # at the end of the next epoch
```

## Check it yourself

```python
import time

for epoch in range(3):
    begun = time.perf_counter()
    for step, batch in enumerate(loader):
        if step == 0:
            print(f"epoch {epoch}: first batch after {time.perf_counter() - begun:.2f} s")
        train_step(batch)
    done = time.perf_counter()
    after_epoch()  # validation, checkpoint, callbacks
    print(f"epoch {epoch}: {time.perf_counter() - done:.2f} s after its last batch")
```

## Not this, if
- validation takes the time: that is expected there, and not counted
- a call into a logger or an upload takes it: [logger-blocks-epoch-end](logger-blocks-epoch-end.md)
- a hook of a callback takes it: [callback-blocks-epoch-end](callback-blocks-epoch-end.md)
- workers are made again for every epoch: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md)
- saving takes it: [slow-checkpoint](slow-checkpoint.md)

## How sure
Judged from how long it took from the end of each epoch of a loader to the first batch of the next, and what of that
went into stopping workers, starting them, the first batch, checkpoints, loggers, garbage collection, compiling, waiting
for other ranks, validation, and the training's own code. Where that code waited rather than computed, by the watcher's
samples of the main thread, its line is named. Certain of the times. Validation and computing are left out: time of the
training's own code counts only if its main thread was waiting (asleep, for a file, a socket, a process). It speaks from
one second between epochs and a fifth of the run on, and only where no rule knows the part better. Of starting and
stopping workers, the time in which other programs had the CPU cores is left out.

## Seen in
- https://github.com/visionml/pytracking/issues/374: epochs of 6:40, each followed by a pause of 4:20 to restart workers
- https://github.com/open-mmlab/mmhuman3d/pull/233: persistent workers cut a pause of 7 min to 35 s
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_making, fair_start
from ...analysis.glances import own_waiting
from ...analysis.loading import fetching, lasted
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import (
    CALLBACK,
    CHECKPOINT,
    COLLECTION,
    COMPILE,
    ENDING,
    FIRST_BATCH,
    HTTP,
    LOGGER,
    OTHER_LOADER,
    OWN,
    RANKS,
    STARTING,
    SYNCHRONIZE,
    VALIDATION,
    Loader,
    Part,
)
from ...evidence.process import Process
from ...wording.settings import once, settings
from ...wording.text import duration, line, many, percent, short
from ..rule import Level, rule

BOUNDARIES = 2  # one alone may be a coincidence
EACH = 1.0  # seconds a boundary, on average: what is shorter is not noticed
SHARE = 0.2  # of the run: a fifth is worth another way of doing it
NOT_LOST = (VALIDATION, OTHER_LOADER, RANKS)  # what one expects there; and waiting for other ranks is not their fault
PLAIN = {
    CALLBACK: "in a callback",
    CHECKPOINT: "saving",
    LOGGER: "in a logger",
    COLLECTION: "in garbage collection",
    COMPILE: "compiling",
    SYNCHRONIZE: "synchronizing with the GPU",
    FIRST_BATCH: "loading the first batch",
}


class Boundary(NamedTuple):
    """What all boundaries of one loader went into that is neither validation nor computing."""

    main: Process
    loader: Loader
    parts: list[Part]

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.parts)


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.LIKELY,
    needs=("recording",),
    level=Level.ECHO,
    yields_to=("dataloader-bound", "first-batch-slow", "loader-always-slow", "stuck-in-user-code"),
    fallback=True,
)
def check(case: Case) -> Iterator[Finding]:
    found = [_boundary(case, main, loader) for main in case.mains for loader in main.loaders]
    for one in sorted(found, key=lambda one: -one.seconds)[:1]:
        count, ran = len(one.loader.boundaries), lasted(one.main)
        if count < BOUNDARIES or one.seconds < EACH * count or one.seconds < SHARE * ran:
            continue
        most = one.parts[0]
        remedy, *others = _remedies(one, most)
        yield case.finding(
            one.main,
            cause=f"{percent(one.seconds / ran)} of the run is spent between epochs: {duration(one.seconds / count)} "
            f"each, mostly {_name(most)}.",
            seen=list(_seen(one, count)),
            remedy=remedy,
            alternatives=others,
            onset_s=one.loader.boundaries[0].at,
            where=most.where or one.loader.created,
            subject=Subject("loader", one.loader.name),
        )


def _boundary(case: Case, main: Process, loader: Loader) -> Boundary:
    found: dict[tuple[str, str, Place | None], float] = {}
    for part in [one for gap in loader.boundaries for one in gap.parts if one.what not in NOT_LOST]:
        lost = _lost(case, main, loader, part) - (_anyway(case, main, loader) if part.what == FIRST_BATCH else 0.0)
        key = part.what, part.name, part.where
        found[key] = found.get(key, 0.0) + max(lost, 0.0)
    parts = [Part(what, name, seconds, where=where) for (what, name, where), seconds in found.items() if seconds]
    own = own_waiting(case, main, loader.boundaries)
    parts += [own] if own is not None else []
    return Boundary(main, loader, sorted(parts, key=lambda one: -one.seconds))


def _lost(case: Case, main: Process, loader: Loader, part: Part) -> float:
    """Workers that are slow to start and to end because other programs have the CPU cores lose nothing here."""
    if part.what in (STARTING, ENDING):
        return fair_making(case, main, loader, part.seconds)
    return fair_start(case, main, loader, part.seconds) if part.what == FIRST_BATCH else part.seconds


def _anyway(case: Case, main: Process, loader: Loader) -> float:
    """What the first batch takes by itself: of a stream that starts again, all of it."""
    loads = fetching(case, main, loader)
    if loader.iterable or not loads:
        return float("inf")
    return max(one.fetches.longest for one in loads)


def _name(part: Part) -> str:
    if part.what == OWN:
        return part.name
    if part.what == HTTP:
        return f"in {part.name}"
    return PLAIN.get(part.what, part.what) + (f" ({part.name})" if part.name and part.what != COLLECTION else "")


def _seen(one: Boundary, count: int) -> Iterator[str]:
    for part in one.parts[:5]:
        spot = f" at {line(part.where)}" if part.where is not None else ""
        yield f"{duration(part.seconds)} in all {_name(part)}{spot}"
    yield f"{many(count, 'pause')} between epochs: {duration(one.seconds)} without validation"
    looped = one.loader.waits.total + one.loader.bodies.total
    yield f"one epoch takes {duration(looped / max(one.loader.passes, 1))}"
    yield f"loader: {one.loader.name}"


def _remedies(one: Boundary, most: Part) -> list[Remedy]:
    seldom = Remedy("Do it every few epochs instead of after each one")
    if most.what in (ENDING, STARTING, FIRST_BATCH) and one.loader.num_workers:
        stay = settings(one.loader, persistent_workers=True)
        return [Remedy(f"Keep the workers between epochs: set {stay}, and {once(one.loader)}")]
    if most.what == CHECKPOINT:
        return [Remedy("Save every few epochs instead of after each one")]
    if most.what == COLLECTION:
        return [
            Remedy("Freeze what exists after setup", code=["gc.collect()", "gc.freeze()  # before the first epoch"])
        ]
    if most.where is None:
        return [Remedy("Do in a thread, or every few epochs, what the training does after each epoch")]
    return [
        Remedy(
            f"Run the code at {short(most.where)} in a thread during the next epoch, if it reads nothing that changes",
            code=["pending = executor.submit(work)  # after the epoch", "pending.result()  # after the next epoch"],
        ),
        seldom,
    ]
