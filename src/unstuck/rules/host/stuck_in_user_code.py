"""No progress: the run is blocked at a line of its own, and what it could wait for does nothing.

## It means
The line waits for something that does not come: a result of a thread that died, a queue that is never filled, a lock
that is never released, a file that never appears. This rule speaks when no other knows more.

## Fix
Read the named line: what does it wait for, and what should provide it? A timeout there turns silence into an error:

```python
item = jobs.get()  # before: waits forever
item = jobs.get(timeout=60)  # after: raises queue.Empty

requests.post(url, json=row, timeout=60)
lock.acquire(timeout=60)  # returns False
process.wait(timeout=60)
future.result(timeout=60)
```

## Check it yourself
```sh
py-spy dump --pid PID --locals            # twice: is it at the same line, with the same values?
cat /proc/PID/wchan; ls -l /proc/PID/fd   # what the kernel waits for, and the open files and sockets
```

## Not this, if
- it waits for data: [worker-blocked-io](worker-blocked-io.md), [worker-infinite-loop](worker-infinite-loop.md)
- it waits for another rank: [rank-conditional-eval](rank-conditional-eval.md),
  [ddp-uneven-batches](ddp-uneven-batches.md)
- it waits for a lock file: [hf-filelock](hf-filelock.md), [filebaton-stale-lock](filebaton-stale-lock.md)
- the script has ended and the process has not: [nondaemon-thread-exit](nondaemon-thread-exit.md)
- a native call keeps the GIL: [gil-held](gil-held.md)
- a server, an upload or storage is slow: it is reported as *waiting*, and may still come

## How sure
Judged from the main thread, or a worker that the main process waits for: the line it has been at for so long, the call
below it, the system call and what that waits for; and from whether any thread, child or other end of a pipe still does
something. Certain that it is blocked there, and for how long; whether what it waits for still comes cannot be seen from
here. It stays silent while a thread, a child or the other end of a pipe that could be waited for does anything. Threads
that live on in any hung training (wandb, TensorBoard, metrics, heartbeats) do not count. A wait for a server or for
storage is reported as *waiting*, after a minute. Waits for data, for other ranks and for the user have rules of their
own.

## Seen in
- https://github.com/RolnickLab/ami-data-companion/issues/140: a main thread that hangs in queue.get without a timeout
- https://github.com/rwth-i6/returnn/issues/1497: a process that waits for a child that never ends
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.culprits import Culprit, awaited, calls, culprit, found, state
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

A_MINUTE = 60.0  # longer than any program sleeps on purpose between two steps
KINDS = {
    "pipe": "a pipe",
    "fifo": "a FIFO",
    "socket": "a connection",
    "child": "a child process",
    "file": "a file",
    "terminal": "the terminal",
}


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
        if not _is_blocked(case, seen, stack) or waits_for_user(seen, stack):
            continue
        one = culprit(case, seen, stack)
        answers = waits_for_answer(seen)
        if one.where is None or one.seconds < (A_MINUTE if answers else _patience(case, seen, stack)):
            continue
        task = seen.main_task
        finding = found(
            one,
            f"No progress for {duration(one.seconds)}: {_name(one)} is blocked in {one.where.function}"
            f"{_on(seen, stack)}.",
            [
                *([f"it waits for {awaited(task.awaits)}"] if task.awaits is not None else []),
                *([f"it is at sample {one.sample}"] if one.sample is not None else []),
                state(one),
                calls(one, 4),
                "no thread or child that it could be waiting for did anything in that time",
            ],
            Remedy(
                f"Find out what {one.where.function} waits for there, and what should provide it.",
                [f"py-spy dump --pid {seen.pid} --locals"],
            ),
            case,
            alternatives=[Remedy("Give the call at that line a timeout: silence becomes an error.")],
        )
        yield msgspec.structs.replace(finding, symptom=Symptom.WAITING.value) if answers else finding
        return


def _name(one: Culprit) -> str:
    """Within a sentence."""
    return one.name if one.seen.role == "worker" else one.name[:1].lower() + one.name[1:]


def _is_blocked(case: Case, seen: Seen, stack: Stack) -> bool:
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
    if not asleep(task) and not _others_sleep(case, seen):
        return LONG
    again = asleep(task) and task.switches and (stall is not None or same_sample(stack))
    if again and not in_hook(case, seen):
        return LONG
    return max(stall.patience if stall is not None else A_MINUTE, A_MINUTE)


def _others_sleep(case: Case, seen: Seen) -> bool:
    others = [seen.task(one.tid) for one in other_stacks(case, seen.pid) if not is_beside(one)]
    children = [one.main_task for one in descendants(case, seen.pid) if not is_reporter(one)]
    return any(task is not None and (asleep(task) or task.limited) for task in others) or any(map(asleep, children))


def _on(seen: Seen, stack: Stack) -> str:
    """What kind of thing it waits for, in a word."""
    task = seen.main_task
    if task.awaits is not None and task.awaits.kind in KINDS:
        return f", on {KINDS[task.awaits.kind]}"
    if asleep(task):
        return ", sleeping again and again"
    if in_futex(task):
        queue = any(call.file.endswith("/queue.py") for call in stack.calls[:3])
        return ", on a queue" if queue else ", on a lock, event or queue"
    if task.syscall:
        return f", in the system call {task.syscall}"
    return f", in {task.wait_channel}" if task.wait_channel else ""
