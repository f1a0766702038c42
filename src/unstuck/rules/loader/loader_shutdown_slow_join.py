"""Ending the workers takes long, because each is inside a long sample and cannot hear that it is to end.

## What it looks at
How long the loader took to end its workers, from the recording; in a live run, a main process that is ending workers
while they are still inside samples.

## Why it happens
At the end of a pass, after a `break` and at exit, torch tells its workers to go and waits five seconds for each. A
worker looks only between two batches; one that is busy with a long sample, mostly a prefetched one that nobody needs
any more, is waited for in full and then ended by force. The times add up over the workers.

## What to do
Make single samples shorter, prefetch less (`prefetch_factor=1`), keep the workers with `persistent_workers=True` so
that they end only once, or run the pass to its end instead of breaking out of it. It goes on by itself.

## How sure it is
Sure of the time and of the cause.
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
from ...wording.text import duration, many, short
from ..rule import rule

JOIN = 5.0  # seconds for which torch waits for one worker
LONGEST = 1.0  # seconds of a batch, from which on one may be what a worker was ended in
INSIDE = (FetchState.FETCHING, FetchState.LOADING)
REMEDY = Remedy(
    "Make single samples shorter or prefetch less (prefetch_factor=1); with persistent_workers=True the workers end "
    "only once. It goes on by itself: torch waits 5 s for each worker, then ends it.",
)


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("recording|processes",))
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
        one, everybody = culprit(case, main, stack), workers(case, main)
        lines = {short(place(user_frame(own.calls))) for _, own in busy}
        yield found(
            one,
            f"{one.name} is ending its workers{one.spot}, and waits up to {JOIN:.0f} s for each: {len(busy)} of them "
            "are inside a sample and cannot hear it.",
            [
                f"{many(len(busy), 'worker')} inside a sample at {', '.join(sorted(lines))}",
                f"at most {duration(JOIN * len(everybody))} in all for {many(len(everybody), 'worker')}",
            ],
            REMEDY,
            case,
        )
        return


def _afterwards(case: Case) -> Iterator[Finding]:
    for process, loader in _slow(case):
        yield case.finding(
            process,
            cause=f"Ending the workers of {loader.name} took {duration(loader.shutdowns.longest)}: they were "
            f"inside long samples, and torch waits {JOIN:.0f} s for each.",
            seen=[
                f"{many(loader.shutdowns.count, 'time')} workers were ended: {duration(loader.shutdowns.total)} in "
                f"all, {duration(loader.shutdowns.longest)} at the longest",
                f"{many(loader.num_workers, 'worker')}, prefetch_factor {loader.prefetch_factor}, "
                f"persistent_workers {loader.persistent_workers}",
            ],
            remedy=REMEDY,
            where=loader.reads_at or loader.created,
        )
        return


def _inside_long_samples(case: Case, main: Process, loader: Loader) -> bool:
    """Else they took long to leave for another reason: a busy machine, much memory to give back."""
    loads = fetching(case, main, loader)
    return any(one.fetches.longest >= LONGEST or one.now in INSIDE for one in loads)


def _slow(case: Case) -> list[tuple[Process, Loader]]:
    ended = [(one, loader) for one in case.mains for loader in one.loaders if loader.shutdowns.longest >= JOIN]
    found = [(one, loader) for one, loader in ended if _inside_long_samples(case, one, loader)]
    return sorted(found, key=lambda one: -one[1].shutdowns.longest)
