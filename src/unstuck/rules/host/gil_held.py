"""A thread keeps Python's GIL in native code, so no other Python thread of the process can run.

## It means
A C, C++, Rust or Cython extension, or a function called through `ctypes.PyDLL`, keeps the global interpreter lock (GIL)
while it waits or computes. Until it returns, nothing of the process runs: not the training loop, not a heartbeat, not
Ctrl-C, whose handler needs the GIL too. Often the extension waits for a thread that itself needs the GIL: a deadlock.

## Fix
Release the GIL around the call, and give the native wait a timeout:

```c
Py_BEGIN_ALLOW_THREADS                      /* C */
result = wait_for_device(handle);
Py_END_ALLOW_THREADS
```

```python
library = ctypes.PyDLL("libdevice.so")      # before: keeps the GIL during every call
library = ctypes.CDLL("libdevice.so")       # after: releases it
```

In pybind11 use `py::call_guard<py::gil_scoped_release>()`, in Cython `with nogil:`, in Rust `py.allow_threads(...)`
(`py.detach(...)` in newer versions of PyO3).

## Check it yourself
```sh
py-spy dump --native --pid PID              # one thread is marked active+gil, always in the same call
```

## Not this, if
- a worker is blocked reading a file, which releases the GIL: [worker-blocked-io](worker-blocked-io.md)
- a worker loops in Python code: [worker-infinite-loop](worker-infinite-loop.md)
- a worker waits for a lock that a thread held at the fork: [fork-inherited-lock](fork-inherited-lock.md)
- a collective does not end: native code of NCCL and gloo releases the GIL, and the other ranks tell more

## How sure
Judged from which thread of a main process, or of a worker whose batch is due, holds the GIL in every sample, in one and
the same call; from whether it ever slept in between, as a thread that releases the GIL has to; and from which threads
ask for the GIL every few milliseconds and do not get it. Native stacks name the function.
Certain that the GIL was not released during the samples. Whether the native call will end is not known. A thread that
waits while it holds the GIL is reported after 10 s without progress; a main thread that computes in native code only
after a minute, as *waiting*, and only while nothing is read or written and memory does not grow.

## Seen in
- https://github.com/NVIDIA/apex/issues/1814: extensions that keep the GIL cannot be monitored while they hang
- https://github.com/rapidsai/rapidsmpf/pull/188: a deadlock, fixed by releasing the GIL before a call that may block
- https://github.com/iowarp/clio-core/issues/793: one native call keeps the GIL for 17 minutes, and no watchdog can run
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.gil import Held, called, held, native
from ...analysis.stacks import place, user_frame
from ...analysis.standstill import recorded
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import duration, many, short, who
from ..rule import Level, rule

TEXTS = ("Could not acquire GIL within",)

CALLS = 4  # the innermost native calls are shown


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in held(case):
        yield _found(case, one)


def _found(case: Case, one: Held) -> Finding:
    seen, where = one.seen, place(user_frame(one.stack.calls))
    inside, name = called(one.stack), who(seen)
    how = "computes" if one.spins else "is blocked"
    if one.is_main:
        cause = f"{name} {how} in {inside} and keeps the GIL: no progress for {duration(one.seconds)}."
    else:
        cause = f"{name} has waited {duration(one.seconds)} for the GIL: thread {_thread(one)} {how} in {inside}."
    return case.finding(
        seen,
        cause=cause[:1].upper() + cause[1:],
        seen=list(_seen(case, one)),
        remedy=Remedy(
            f"Release the GIL around {inside}: Py_BEGIN_ALLOW_THREADS, py::gil_scoped_release, `with nogil`, or "
            "ctypes.CDLL instead of PyDLL."
        ),
        alternatives=[
            Remedy("Give that native call a timeout: it has not returned."),
            Remedy("Print the whole native stack.", [f"py-spy dump --native --pid {seen.pid}"]),
        ],
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("thread", _thread(one)),
        symptom=Symptom.WAITING.value if one.is_main and one.spins else "",
    )


def _seen(case: Case, one: Held) -> Iterator[str]:
    seen, task = one.seen, one.task
    used = f"used {duration(task.cpu)} of CPU time" if one.spins else f"slept in {task.wait_channel or task.syscall}"
    yield (
        f"thread {_thread(one)} (tid {task.tid}) had the GIL in every sample, in the same call; "
        f"over {duration(seen.looked)} it {used} and never released it"
    )
    if one.waiting:
        times = sum(waiting.switches for waiting in one.waiting)
        names = ", ".join(_name(case, one, waiting.tid) for waiting in one.waiting[:CALLS])
        yield f"{many(len(one.waiting), 'thread')} asked for the GIL {times:,} times and never got it: {names}"
    frames = [f"{frame.function} ({frame.file.rpartition('/')[2]})" for frame in native(one.stack)[:CALLS]]
    frames = frames or [called(one.stack)]
    frames += [f"{frame.name} ({short(place(frame))})" for frame in one.stack.calls[:CALLS]]
    yield "innermost calls: " + " < ".join(frames)
    process = recorded(case, seen)
    if process is not None and process.trace_refused:
        yield f"pid {seen.pid} did not answer when asked for its Flight Recorder: that takes the GIL, too"


def _thread(one: Held) -> str:
    return one.stack.name or ("MainThread" if one.is_main else str(one.task.tid))


def _name(case: Case, one: Held, tid: int) -> str:
    stack = next((stack for stack in case.stacks or () if stack.pid == one.seen.pid and stack.tid == tid), None)
    line = short(place(user_frame(stack.calls))) if stack is not None else ""
    name = stack.name if stack is not None and stack.name else str(tid)
    return f"{name} at {line}" if line else name
