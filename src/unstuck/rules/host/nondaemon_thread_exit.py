"""Training has finished, but the process cannot exit: a thread or a child of it never ends.

## It means
At exit Python waits for every thread that is not a daemon, for children of multiprocessing, and for queues whose
contents are not taken. The thread of a logger or uploader that waits for its next job keeps the process, and its GPUs,
forever.

## Fix
Tell the thread to end before the script does, and join it:

```python
thread = threading.Thread(target=upload, args=(jobs,))
thread.start()
train()  # before: upload() still waits in jobs.get()

train()  # after
jobs.put(None)  # upload() returns when it gets None
thread.join()
```

Or make it `daemon=True`, if its work may be cut off. A `multiprocessing.Queue` that still holds items keeps its
process, too: take them out, or call `queue.cancel_join_thread()`, which drops them.

## Check it yourself
```sh
py-spy dump --pid PID          # MainThread in _shutdown (threading.py); which other threads are there?
ps --ppid PID                  # children that are still alive
```

```python
print(threading.enumerate())   # as the last line of the script
```

## Not this, if
- wandb still uploads: [wandb-finish-hang](wandb-finish-hang.md)
- workers are shut down, each at the end of a long sample: [loader-shutdown-slow-join](loader-shutdown-slow-join.md)
- the script itself has not ended yet: [stuck-in-user-code](stuck-in-user-code.md)

## How sure
Judged from a main thread inside the interpreter's own end, what it waits for there, and the other threads and children:
whether any of them still does something. Sure that the script has ended, and of what the interpreter waits for. A
thread that still reads, writes or computes is left alone: it may be finishing its work.

## Seen in
- https://github.com/lincc-frameworks/hyrax/pull/1011: a GPU monitor that was no daemon kept failed trainings alive
- https://github.com/hwanhuh/2D-GS-Viser-Viewer/issues/19: training finished, the thread of the viewer did not
- https://github.com/bghira/SimpleTuner/pull/2600: threads for cleaning up kept the process open
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

DAEMON = Remedy(
    "Make it a daemon thread, if its work may be cut off.",
    code=["threading.Thread(target=upload, daemon=True)"],
)


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
            f"Training has finished, but {one.name[:1].lower()}{one.name[1:]} cannot exit: "
            f"{_blocked(threads, waiting)}.",
            [*told, state(one)],
            _end(first),
            case,
            Subject("thread", first.name) if first is not None else None,
            [DAEMON] if first is not None else (),
        )
        return


def _end(first: Stack | None) -> Remedy:
    if first is None:
        return Remedy(
            "End the child before the script ends, and join it.",
            code=["process.terminate()    # or tell it to return", "process.join()"],
        )
    return Remedy(
        "Tell the thread to end before the script does, and join it.",
        code=["jobs.put(None)     # a value at which the thread returns, or: stop.set()", "thread.join()"],
    )


def _at_work(seen: Seen, threads: list[Stack], waiting: list[Seen]) -> bool:
    tasks = [task for other in threads if (task := seen.task(other.tid)) is not None]
    return any(not idles(task, seen.looked) for task in tasks) or any(moves(one) for one in waiting)


def _blocked(threads: list[Stack], waiting: list[Seen]) -> str:
    if len(threads) == 1:
        return f"thread {threads[0].name or threads[0].tid} is still blocked"
    if threads:
        return f"{many(len(threads), 'thread')} are still blocked"
    if len(waiting) == 1:
        return f"child process {waiting[0].pid} is still alive"
    return f"{many(len(waiting), 'child process')} are still alive"


def _thread(stack: Stack) -> str:
    where = place(user_frame(stack.calls))
    inner = stack.calls[0]
    return f"thread {stack.name or stack.tid} is in {inner.name} ({short(place(inner))})" + (
        f", called at {line(where)}" if where else ""
    )


def _child(seen: Seen) -> str:
    return f"child {seen.pid} ({seen.name}) is in state {seen.state}"
