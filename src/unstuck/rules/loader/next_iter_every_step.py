r"""`next(iter(loader))` in the loop restarts the loader's workers for every batch.

## It means
Every `iter(loader)` starts all workers and fills their queues, and everything is thrown away when the next iterator
replaces it. The batch that comes out is right, so only the clock shows the mistake. It also draws each batch from a
fresh shuffle, so an "epoch" no longer visits every sample once. A prefetcher around the loader hides it: one that is
made again in every step takes two batches each time, one of them for nothing.

## Fix
Make the iterator once and call `next` on it, or loop over the loader.
```python
# before
for step in range(steps):
    batch = next(iter(loader))


# after
def endless(loader):
    while True:
        yield from loader  # a new epoch, with a new shuffle


batches = endless(loader)
for step in range(steps):
    batch = next(batches)
```
`persistent_workers=True` alone does not help much: the prefetched batches are still thrown away.

## Check it yourself
```sh
grep -rnE "next\(iter\(" --include="*.py" .
```
Or watch the workers' pids, which change with every step:
```sh
watch -n 1 pgrep -P "$MAIN_PID"
```

## Not this, if
- the pause comes once per epoch, not in every step: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md)
- each step waits for data, but the pids stay: [dataloader-bound](dataloader-bound.md)

## How sure
Judged from how many iterators of a loader were made, how many batches each gave before it was dropped, and how many
optimizer steps came of each: an iterator for every step, or for every batch that is trained on, though the loader has
more. Certain of the counts. It speaks only when starting iterators and waiting for their first batch takes a fifth of
the time or more. A single `next(iter(loader))` to look at a batch is healthy, and so is a loader of one batch, or a
validation of a few batches: where an iterator gives more than one batch, the optimizer's steps must come of it.

## Seen in
- https://github.com/pytorch/pytorch/issues/1917: `next(iter(loader))` in a loop; memory grows because workers are
  started faster than they end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.passes import phases_of
from ...evidence.epochs import VALIDATION
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent
from ..rule import rule

OFTEN = 10  # iterators: fewer may be a look at the data, or a few short validations
SHARE = 0.2  # of the loop's time: below that it is bad style, not a slow run
ONE = 1.2  # for each, but for a few that are counted while they come
AHEAD = 1  # batch that a prefetcher has taken, next to the one that is trained on
KEPT = 0.1  # of the iterators that may be used to their end
REMEDY = Remedy(
    "Make the iterator once, before the loop, and a new one only on StopIteration",
    code=["batches = iter(loader)  # before the loop", "batch = next(batches)  # in the loop"],
)
LOOP = Remedy("Loop over the loader itself", code=["for batch in loader:"])
WRAPPED = Remedy("Make what wraps the loader, such as a prefetcher, once per epoch instead of in every step.")


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for process in case.mains:
        for loader in process.loaders:
            if not _thrown_away(loader) or not _for_each_step(process, loader):
                continue
            spent, looped = loader.starts.total + loader.first_waits.total, _looped(process, loader)
            if spent < SHARE * looped:
                continue
            yield case.finding(
                process,
                cause=_cause(process, loader),
                seen=[
                    f"{percent(spent / looped)} of the loop's time goes into it: {duration(spent)} so far",
                    f"per {'step' if _one_each(loader) else 'iterator'}: {duration(loader.starts.mean)} starting, "
                    f"{duration(loader.first_waits.mean)} waiting for its first batch, {_rest(loader, looped)}",
                    f"{many(loader.starts.count, 'iterator')} for {_for(process, loader)}",
                ],
                remedy=REMEDY,
                alternatives=[LOOP] if _one_each(loader) else [WRAPPED],
                where=loader.created,
            )


def _each(loader: Loader) -> float:
    """Batches that an iterator gave."""
    return loader.batches / loader.starts.count


def _one_each(loader: Loader) -> bool:
    return _each(loader) <= ONE


def _thrown_away(loader: Loader) -> bool:
    """Iterators that were left with more batches to come than they gave. The first sixteen that ended are all known."""
    iterators = loader.starts.count
    if iterators < OFTEN or not loader.batches:
        return False
    left = loader.length is None or loader.length > max(2 * _each(loader) / ONE, 1)
    return left and len(loader.ended) <= KEPT * iterators


def _for_each_step(process: Process, loader: Loader) -> bool:
    """One batch of each, for whatever it is; or as much as one step takes, or a batch and those ahead, for training."""
    if _one_each(loader):
        return True
    validates = any(one.kind == VALIDATION for one in phases_of(process, loader))
    others = sum(one.optimizer_steps for one in process.loaders if one.number != loader.number)
    trains = not validates and 2 * others < process.optimizer_steps
    return trains and (_steps(process, loader) <= ONE or _each(loader) <= ONE + AHEAD)


def _steps(process: Process, loader: Loader) -> float:
    """Optimizer steps for each iterator."""
    return process.optimizer_steps / loader.starts.count


def _looped(process: Process, loader: Loader) -> float:
    """Seconds. Of an iterator that gave several batches it is not known when the loop was done with the last."""
    if _one_each(loader) or loader.began is None:
        return loader.starts.total + loader.first_waits.total + loader.waits.total + loader.bodies.total
    return max(process.last_sign - loader.began, loader.starts.total + loader.first_waits.total)


def _cause(process: Process, loader: Loader) -> str:
    what = many(loader.num_workers, "worker") if loader.num_workers else "the sampler"
    if _one_each(loader):
        return f"Every step restarts {what} because next(iter(loader)) makes a new iterator of {loader.name}."
    often = "Every step restarts" if _steps(process, loader) <= ONE else "The loop restarts"
    rest = "" if _steps(process, loader) <= ONE else " every few steps"
    dropped = f"is dropped after {many(round(_each(loader)), 'batch')}"
    return f"{often} {what}{rest}: each new iterator of {loader.name} {dropped}."


def _for(process: Process, loader: Loader) -> str:
    batches = many(loader.batches, "batch")
    return batches if _one_each(loader) else f"{batches} and {many(process.optimizer_steps, 'optimizer step')}"


def _rest(loader: Loader, looped: float) -> str:
    if _one_each(loader):
        return f"{duration(loader.bodies.mean)} training"
    return f"{duration(looped / loader.starts.count)} in all, with the training"
