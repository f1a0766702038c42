"""Ending a loader's workers takes seconds, because they are still inside long samples.

## It means
When the loop leaves an iterator before its end, by `break`, by an exception or at exit, torch tells the workers to end
and waits up to five seconds for each, one after another. A worker looks for that message only between two batches. One
that is busy with a long sample, mostly a prefetched one that is no longer needed, costs the full five seconds and is
then terminated. At the normal end of an epoch the workers have nothing left to load and end at once.

## Fix
Let the sampler draw only what the loop uses, instead of leaving the loop early:
```python
# before
for step, batch in enumerate(DataLoader(dataset, batch_size=8, shuffle=True, num_workers=4)):
    if step == 100:
        break

# after
sampler = RandomSampler(dataset, num_samples=100 * 8)
for batch in DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=4):
    ...
```
Or begin fewer batches that are then thrown away (`prefetch_factor=1`), make single samples shorter, or keep the workers
with `persistent_workers=True`: they are then ended only once, at exit. The next epoch still waits until they have
finished what they had begun. It is safe to do nothing: the run continues by itself.

## Check it yourself
While it takes long, the main process is in `_shutdown_workers`:
```sh
py-spy dump --pid "$MAIN_PID"
```
Or time it:
```python
batches = iter(loader)
next(batches)
start = time.monotonic()
del batches
print(time.monotonic() - start)  # near 0; 5 s per busy worker if their samples are long
```

## Not this, if
- the pause is at the start of each epoch: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md)
- the pause is between epochs, in code of your own: [epoch-boundary-gap](epoch-boundary-gap.md)
- the training is over and a thread keeps the process alive: [nondaemon-thread-exit](nondaemon-thread-exit.md)

## How sure
Judged from how long the loader took to end its workers, by the recording; in a live run, from a main process that is
ending workers while they are still inside samples. It speaks from five seconds on, and only if the workers were inside
long samples: else they ended slowly for another reason, such as a busy machine or much memory to free. Sure of the time
and of the cause.

## Seen in
- https://github.com/pytorch/pytorch/issues/39570: `_shutdown_workers` hangs in `w.join()`; since then torch waits with
  a timeout and terminates what is left.
- https://github.com/pytorch/pytorch/issues/26072: workers that do not end when the iterator is dropped.
- https://github.com/pytorch/pytorch/issues/23642: five seconds at each exit of an epoch, with torch 1.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import culprit, found
from ...analysis.loading import fetching
from ...analysis.stacks import ENDING, doing, fetch_of, place, user_frame
from ...analysis.standstill import LONG, main_stack, mains, standing, workers
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.loader import FetchState, Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, short
from ..rule import rule

JOIN = 5.0  # seconds for which torch waits for one worker
LONGEST = 1.0  # seconds of a batch: a worker may have been inside one that long when it was to end
INSIDE = (FetchState.FETCHING, FetchState.LOADING)
WAIT = Remedy("Wait: the run continues by itself.")
REMEDY = Remedy(
    "Iterate to the end instead of leaving the loop early: let the sampler draw only what the loop uses",
    code=["sampler = RandomSampler(dataset, num_samples=steps * batch_size)"],
)


@rule(explains=Symptom.WAITING, certainty=Certainty.LIKELY, needs=("recording|processes",))
def check(case: Case) -> Iterator[Finding]:
    live = list(_now(case))
    yield from live or _afterwards(case)


def _now(case: Case) -> Iterator[Finding]:
    for main, stack in mains(case):
        busy = [
            (one, own)
            for one in workers(case, main)
            if (own := main_stack(case, one.pid)) is not None and fetch_of(own) is not None and own.before
        ]
        if doing(stack) != ENDING or not busy or standing(case, main, stack) < LONG:
            continue
        one, own_workers = culprit(case, main, stack), workers(case, main)
        lines = {short(place(user_frame(own.calls))) for _, own in busy}
        yield found(
            one,
            f"{one.name} waits up to {duration(JOIN * len(own_workers))} for its workers to end: {len(busy)} "
            f"{'is' if len(busy) == 1 else 'are'} inside a sample.",
            [
                f"{many(len(busy), 'worker')} inside a sample at {', '.join(sorted(lines))}",
                f"torch waits up to {JOIN:.0f} s for each of {many(len(own_workers), 'worker')}, then terminates it",
            ],
            WAIT,
            case,
            alternatives=[REMEDY, *_others(None)],
        )
        return


def _afterwards(case: Case) -> Iterator[Finding]:
    for process, loader in _slow(case):
        yield case.finding(
            process,
            cause=f"Ending the workers of {loader.name} took {duration(loader.shutdowns.longest)} "
            "because they were still inside long samples.",
            seen=[
                f"workers were ended {many(loader.shutdowns.count, 'time')}: {duration(loader.shutdowns.total)} in "
                f"all; torch waits up to {JOIN:.0f} s for each worker, then terminates it",
                f"num_workers={loader.num_workers}, prefetch_factor={loader.prefetch_factor}, "
                f"persistent_workers={loader.persistent_workers}",
            ],
            remedy=REMEDY,
            alternatives=_others(loader),
            where=loader.reads_at or loader.created,
            symptom=Symptom.SLOW.value,
        )
        return


def _others(loader: Loader | None) -> list[Remedy]:
    fewer = Remedy("Prefetch less: fewer batches are begun and thrown away", code=[settings(loader, prefetch_factor=1)])
    kept = Remedy(
        "Keep the workers: they are then ended only once, at exit", code=[settings(loader, persistent_workers=True)]
    )
    less = [fewer] if loader is None or (loader.prefetch_factor or 2) > 1 else []
    return [*less, *([kept] if loader is None or not loader.persistent_workers else [])]


def _inside_long_samples(case: Case, main: Process, loader: Loader) -> bool:
    """Else they ended slowly for another reason: a busy machine, much memory to free."""
    loads = fetching(case, main, loader)
    return any(one.fetches.longest >= LONGEST or one.now in INSIDE for one in loads)


def _slow(case: Case) -> list[tuple[Process, Loader]]:
    ended = [(one, loader) for one in case.mains for loader in one.loaders if loader.shutdowns.longest >= JOIN]
    found = [(one, loader) for one, loader in ended if _inside_long_samples(case, one, loader)]
    return sorted(found, key=lambda one: -one[1].shutdowns.longest)
