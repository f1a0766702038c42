"""A worker computes one sample without end: nothing is read, nothing grows, no batch comes.

## What it looks at
A worker that uses a whole core inside one and the same sample while the main process waits for it, far beyond what a
sample takes in this run; what it reads and writes, and whether its memory grows.

## Why it happens
Mostly "try again until the sample is valid" where no sample ever is: a retry loop around a broken file, rejection
sampling or a random crop that cannot succeed, a filter that drops everything.

## What to do
Give the loop an end: after so many tries raise an error that names the sample, or skip it.

## How sure it is
A long computation that reads nothing and keeps its memory looks the same from outside, so it is told only after ten
times what samples of this run usually take, or, where no sample was ever finished, after a minute.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found
from ...analysis.standstill import LONG, computes, fetchers, fetching, gets_on, same_sample
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import Seen
from ...wording.text import duration
from ..rule import rule

TIMES = 10  # of a usual sample: the factor of the stall clock
FIRST = 60.0  # seconds, for a worker that has never finished a sample
FEW_FAULTS = 50  # pages a second: what the interpreter touches anyway; a buffer that fills touches more


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for _, seen, stack in fetchers(case):
        if not computes(seen.main_task, seen.looked) or gets_on(seen) or not same_sample(stack):
            continue
        one = culprit(case, seen, stack)
        if one.seconds < _patience(case, seen):
            continue
        usual = _usual(case, seen)
        yield found(
            one,
            f"{one.name} has been computing{one.at_sample} for {duration(one.seconds)} without an end{one.spot}: "
            "it reads nothing, its memory does not grow, and no batch comes.",
            [
                f"pid {seen.pid} used {duration(seen.main_task.cpu)} of processor time in {duration(seen.looked)}, "
                f"read and wrote nothing, and grew by {seen.anonymous_grown} bytes",
                calls(one),
                *([f"99 of 100 samples of this worker take less than {duration(usual)}"] if usual else ()),
            ],
            Remedy(
                "Give the loop an end: after some tries, raise an error that names the sample, or skip it"
                f"{f'. Try this one alone: dataset[{one.sample}]' if isinstance(one.sample, int) else ''}.",
                [f"py-spy dump --pid {seen.pid} --locals"],
            ),
            case,
        )
        return


def _usual(case: Case, seen: Seen) -> float | None:
    known = fetching(case, seen)
    return known.sample_times.p99 if known is not None and known.sample_times.count else None


def _patience(case: Case, seen: Seen) -> float:
    usual = _usual(case, seen)
    if usual is not None:
        return max(LONG, TIMES * usual)
    if case.stall is not None:
        return FIRST
    # Never recorded: that it has delivered batches before shows in the thread that sends them, and a buffer that fills
    # touches new pages all the time.
    return LONG if len(seen.tasks) > 1 or seen.faults <= FEW_FAULTS * max(seen.looked, 1.0) else FIRST
