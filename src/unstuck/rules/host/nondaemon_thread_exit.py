"""The script has ended, but the process does not: it waits at exit for a thread or a child that never ends.

## What it looks at
A main thread inside the interpreter's own end, what it waits for there, and the other threads and children: whether
any of them still does something.

## Why it happens
Python waits at exit for every thread that is not a daemon, for children of multiprocessing, and for queues whose
contents nobody takes. A logger's or uploader's thread that waits for its next job keeps the process, and its GPUs,
for ever.

## What to do
Tell the thread to end (put a sentinel in its queue, set its event) and join it, or make it `daemon=True`; close or
`cancel_join_thread()` queues.

## How sure it is
Sure that the script is through and what the interpreter waits for. A thread that still reads, writes or computes is
left alone: it may be finishing its work.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import culprit, found, state
from ...analysis.progress import is_beside
from ...analysis.stacks import EXITING, doing, place, user_frame
from ...analysis.standstill import LONG, children, idles, mains, moves, other_stacks
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Seen, Stack
from ...wording.text import line, many, short
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen, stack in mains(case):
        if doing(stack) != EXITING or not idles(seen.main_task, seen.looked):
            continue
        one = culprit(case, seen, stack)
        alive = [other for other in other_stacks(case, seen.pid) if other.calls]
        threads = [other for other in alive if not is_beside(other)] or alive  # a logger's own end by themselves
        waiting = [child for child in children(case, seen.pid) if child.role in ("child", "worker")]
        if one.seconds < LONG or _at_work(seen, threads, waiting) or not (threads or waiting):
            continue
        told = [_thread(other) for other in threads[:4]] + [_child(child) for child in waiting[:4]]
        first = threads[0] if threads else None
        where = place(user_frame(first.calls)) if first is not None else None
        yield found(
            one._replace(where=where),
            f"The script has ended, but {one.name[:1].lower()}{one.name[1:]} does not: at exit it waits for "
            f"{_awaited(threads, waiting)}, and nothing of that moves.",
            [state(one), *told],
            Remedy(
                "Tell the thread to end before the script does (a sentinel in its queue, an event) and join it, or "
                "make it daemon=True. The training is done: once its files are written, this process can be ended.",
                [f"kill {seen.pid}"],
            ),
            case,
            Subject("thread", first.name) if first is not None else None,
        )
        return


def _at_work(seen: Seen, threads: list[Stack], waiting: list[Seen]) -> bool:
    tasks = [task for other in threads if (task := seen.task(other.tid)) is not None]
    return any(not idles(task, seen.looked) for task in tasks) or any(moves(one) for one in waiting)


def _awaited(threads: list[Stack], waiting: list[Seen]) -> str:
    if threads:
        names = ", ".join(other.name or str(other.tid) for other in threads[:3])
        return f"the thread {names}" if len(threads) == 1 else f"{many(len(threads), 'thread')} ({names})"
    return f"{many(len(waiting), 'child process')} (pid {', '.join(str(one.pid) for one in waiting[:3])})"


def _thread(stack: Stack) -> str:
    where = place(user_frame(stack.calls))
    inner = stack.calls[0]
    return f"thread {stack.name or stack.tid} is in {inner.name} ({short(place(inner))})" + (
        f", called at {line(where)}" if where else ""
    )


def _child(seen: Seen) -> str:
    return f"child {seen.pid} ({seen.name}) is in state {seen.state}"
