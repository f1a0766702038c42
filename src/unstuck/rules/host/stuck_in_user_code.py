"""The run is blocked at one line of its own code, and nothing that could move it on does anything.

## What it looks at
The main thread, or a worker that the main process waits for: the line it has been at for so long, the call below it,
the system call and what it waits for; and whether any thread, child or other end of a pipe still does something.

## Why it happens
Something is waited for that does not come: a result of a thread that died, a queue nobody fills, a lock held for ever,
a file that never appears. This rule speaks when no other knows more.

## What to do
Read the line that is named: what does it wait for, and who should provide it? A time limit there turns silence into an
error.

## How sure it is
Certain that it is blocked there, and for how long; whether what it waits for still comes cannot be seen from here. It
stays silent while a thread, a child or the other end of a pipe that could be waited for does anything. Threads that
live on in any hung training (wandb, TensorBoard, metrics, heartbeats) do not count. A wait for a server or for storage
is told as *waiting*, after a minute. Waits for data, for other ranks and for the user have rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.culprits import awaited, calls, culprit, found, state
from ...analysis.progress import helped, is_beside, is_reporter, pages_in, waits_for_answer, wraps
from ...analysis.side_work import in_hook
from ...analysis.stacks import OWN, doing, waits_for_user
from ...analysis.standstill import (
    LONG,
    asleep,
    descendants,
    fetchers,
    idles,
    in_futex,
    mains,
    other_stacks,
    same_place,
    same_sample,
)
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import Seen, Stack
from ...wording.text import duration
from ..rule import Level, rule

A_MINUTE = 60.0  # longer than anybody sleeps on purpose between two steps


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes", "stacks"),
    level=Level.ECHO,
    outranks=("dataloader-bound", "uncaught-exception", "main-killed"),
    fallback=True,
)
def check(case: Case) -> Iterator[Finding]:
    own = [(seen, stack) for seen, stack in mains(case) if doing(stack) == OWN and not wraps(case, seen)]
    for seen, stack in [(worker, stack) for _, worker, stack in fetchers(case)] + own:
        if not _stands(case, seen, stack) or waits_for_user(seen, stack):
            continue
        one = culprit(case, seen, stack)
        answers = waits_for_answer(seen)
        if one.where is None or one.seconds < (A_MINUTE if answers else _patience(case, seen, stack)):
            continue
        task = seen.main_task
        waits = f" It waits for {awaited(task.awaits)}." if task.awaits is not None else ""
        finding = found(
            one,
            f"{one.name} stands{one.spot} in {one.where.function}{one.at_sample}, {_how(seen)}, and has not got on "
            f"for {duration(one.seconds)}.{waits}",
            [state(one), calls(one, 4), "no thread or child that it could be waiting for did anything meanwhile"],
            Remedy(
                f"Look at what {one.where.function} waits for there, and who should provide it. A time limit at that "
                "line turns the silence into an error.",
                [f"py-spy dump --pid {seen.pid} --locals"],
            ),
            case,
        )
        yield msgspec.structs.replace(finding, symptom=Symptom.WAITING.value) if answers else finding
        return


def _stands(case: Case, seen: Seen, stack: Stack) -> bool:
    """It did nothing, and neither did any thread, child or other end that it may wait for."""
    if seen.state not in ("S", "D") or not same_place(stack) or not idles(seen.main_task, seen.looked):
        return False
    return not pages_in(seen, seen.main_task) and not helped(case, seen, stack)


def _patience(case: Case, seen: Seen, stack: Stack) -> float:
    """A sleep ends by itself. One that is begun again and again, over one sample or one stall, waits for something.

    So does a thread or a child that sleeps while the main thread waits: it may well be the one that is waited for. In a
    framework's hook it may be the hook's work.
    """
    task, stall = seen.main_task, case.stall
    if not asleep(task) and not _somebody_sleeps(case, seen):
        return LONG
    again = asleep(task) and task.switches and (stall is not None or same_sample(stack))
    if again and not in_hook(case, seen):
        return LONG
    return max(stall.patience if stall is not None else A_MINUTE, A_MINUTE)


def _somebody_sleeps(case: Case, seen: Seen) -> bool:
    others = [seen.task(one.tid) for one in other_stacks(case, seen.pid) if not is_beside(one)]
    children = [one.main_task for one in descendants(case, seen.pid) if not is_reporter(one)]
    return any(task is not None and (asleep(task) or task.limited) for task in others) or any(map(asleep, children))


def _how(seen: Seen) -> str:
    task = seen.main_task
    if asleep(task):
        return "asleep again and again"
    if in_futex(task):
        return "waiting for a lock, an event or a queue"
    if task.syscall:
        return f"in the system call {task.syscall}"
    return f"asleep in {task.wait_channel}" if task.wait_channel else "asleep"
