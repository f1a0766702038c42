"""A loop of the user's own goes on forever and gives no batch: it reads the same files again and again, or nothing.

## What it looks at
A main process, or a worker that is waited for, whose main thread computes without progress. It is sampled for several
seconds: which lines of the user's own it meets, which files and folders it begins again, whether it writes, whether
memory grows. In a recorded run also that no batch and no optimizer step ever came, and for how long nothing moved.

## Why it happens
A data loader that starts over when its data ends never notices that there is none: the list of files is empty, a filter
drops every document, no row group is assigned to this rank, rejection sampling cannot succeed. `while True` and the
empty `for` are often in different functions, so no line shows it. A busy CPU looks like work.

## What to do
Count what one round over the data yields, and raise an error when it is nothing.

## How sure it is
Files that are begun again and again with nothing kept of them are told after 10 s. A loop that reads nothing looks like
a long computation: it has a minute, is told as *waiting*, and stays unnamed while memory grows or the calls vary. From
outside it speaks only of a generator, a sampler or a DataLoader's fetch: whether a batch ever came from other code is
not known there, and such a run is *unknown*.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.endless_loops import (
    A_MINUTE,
    SETTLED,
    around,
    begun_again,
    goes_round,
    is_awaited,
    lines,
    only_computes,
)
from ...analysis.first_batch import gave_batches, so_far
from ...analysis.stacks import place
from ...analysis.standstill import main_stack, recorded, standing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Frame, Rounds, Seen, Stack
from ...evidence.process import Failure
from ...wording.text import duration, many, percent, said, short, size, who
from ..rule import rule

LINES = 4  # that are told
FILES = 3

OUTRANKED = (
    "stuck-in-user-code",
    "worker-infinite-loop",
    "silent-rank-data-stall",
    "collective-timeout",
    "dataloader-timeout",
    "dataloader-bound",
    "uncaught-exception",
    "main-killed",
)


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes", "stacks"),
    outranks=("worker-infinite-loop", "silent-rank-data-stall"),
)
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack, rounds = main_stack(case, seen.pid), seen.rounds
        if stack is None or rounds is None or not _before_the_first(case, seen, stack):
            continue
        seconds = standing(case, seen, stack) if recorded(case, seen) is not None else rounds.seconds
        frame = around(rounds, stack)
        if frame is None or not _loops(rounds, seconds):
            continue
        yield _found(case, seen, frame, seconds)


def _before_the_first(case: Case, seen: Seen, stack: Stack) -> bool:
    """By the recording; without one, something has to wait for what it should give."""
    process = recorded(case, seen)
    return is_awaited(stack) if process is None else not gave_batches(process) and process.optimizer_steps == 0


def _loops(rounds: Rounds, seconds: float) -> bool:
    return (goes_round(rounds) and seconds >= SETTLED) or (only_computes(rounds) and seconds >= A_MINUTE)


def _found(case: Case, seen: Seen, frame: Frame, seconds: float) -> Finding:
    rounds = seen.rounds
    assert rounds is not None
    where = place(frame)
    files = begun_again(rounds) if goes_round(rounds) else {}
    name, spot = who(seen)[:1].upper() + who(seen)[1:], f"{frame.name} ({short(where)})"
    what = f"loops endlessly in {spot}: it reads {_named(files)} over and over" if files else f"loops in {spot}: it "
    what += "" if files else "reads nothing, keeps nothing"
    return case.finding(
        seen,
        cause=f"{name} {what}, and no batch came in {duration(seconds)}.",
        seen=list(_seen(case, seen, rounds, files)),
        remedy=Remedy(_advice(case, seen, frame), [f"py-spy dump --pid {seen.pid} --locals"]),
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("file", next(iter(files))) if files else None,
        symptom="" if files else Symptom.WAITING.value,
    )


def _advice(case: Case, seen: Seen, frame: Frame) -> str:
    """Of a loop that something waits for, or one that fills something: what it yields; of any other, what ends it."""
    stack = main_stack(case, seen.pid)
    if stack is not None and is_awaited(stack):
        return (
            f"Count what one round of {frame.name} yields, and raise an error when it is nothing: the list may be "
            "empty, the filter may drop everything, or nothing is assigned to this rank."
        )
    return (
        f"See what should end the loop in {frame.name}: a flag, a file or a count that never comes. Give the loop a "
        "time limit, and raise an error when it is over."
    )


def _named(files: dict[str, int]) -> str:
    first = next(iter(files)).rpartition("/")[2]
    return first if len(files) == 1 else f"{first} and {many(len(files) - 1, 'other')}"


def _seen(case: Case, seen: Seen, rounds: Rounds, files: dict[str, int]) -> Iterator[str]:
    met = lines(rounds)
    total = sum(met.values())
    spots = ", ".join(
        f"{short(where)} ({where.function.rpartition('.')[2]}) {percent(count / total)}"
        for where, count in list(met.items())[:LINES]
    )
    yield f"sampled {total} times in {duration(rounds.seconds)}, it was at {many(len(met), 'line')} of its own: {spots}"
    for path, times in list(files.items())[:FILES]:
        yield f"{path} was begun again at least {many(times, 'time')}"
    read = f"read {size(rounds.read)} again" if rounds.read else "read nothing"
    yield f"meanwhile it {read}, wrote nothing, and its memory did not grow"
    process = recorded(case, seen)
    if process is not None:
        yield so_far(case, process) if process.sources else "no batch and no optimizer step so far"
        yield from (_died(one) for one in process.failures if one.how == "thread")


def _died(failure: Failure) -> str:
    """What the loop waits for may have been this thread's to give."""
    place = user_line(failure)
    at = f" at {short(place)}" if place is not None else ""
    return f"thread {failure.thread} had ended by {said(failure, 200)}{at}"
