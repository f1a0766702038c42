"""A thread holds Python's GIL in native code and does not let go of it, so no other Python thread can run.

## What it looks at
Which thread of a main process, or of a worker that is waited for, holds the global interpreter lock (GIL) at every
look, in one and the same call; whether it ever slept in between, as a thread that gives the GIL away has to; and
which threads ask for the GIL every few milliseconds and do not get it. Native stacks name the function.

## Why it happens
A C, C++, Rust or Cython extension, or a function called through `ctypes.PyDLL`, keeps the GIL while it waits or
computes. If that does not end, nothing of the process goes on: not the training loop, not a heartbeat, not Ctrl-C,
whose handler needs the GIL too. Often the extension waits for a thread that itself needs the GIL: a deadlock.

## What to do
Release the GIL around the call: `Py_BEGIN_ALLOW_THREADS`, `py::gil_scoped_release`, `with nogil`, `ctypes.CDLL` in
place of `PyDLL`. Give the native wait a timeout.

## How sure it is
Certain that the GIL was not given away while it was looked at. Whether the native call will end is not known. A thread
that waits while it holds the GIL is told after 10 s without progress; a main thread that computes in native code only
after a minute, as *waiting*, and only while nothing is read or written and memory does not grow.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.gil import Held, called, held, native
from ...analysis.stacks import place, user_frame
from ...analysis.standstill import recorded
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import duration, many, short, who
from ..rule import Level, rule

CALLS = 4  # native ones, of which the innermost are told

OUTRANKED = (
    "stuck-in-user-code",
    "worker-infinite-loop",
    "worker-blocked-io",
    "silent-rank-data-stall",
    "rendezvous-peer-missing",
    "collective-timeout",
    "dataloader-timeout",
    "dataloader-bound",
    "uncaught-exception",
    "main-killed",
)


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in held(case):
        yield _found(case, one)


def _found(case: Case, one: Held) -> Finding:
    seen, where = one.seen, place(user_frame(one.stack.calls))
    inside = called(one.stack)
    how = "computes" if one.spins else "is blocked"
    at = f" at {short(where)}" if where is not None else ""
    if one.is_main:
        cause = f"{who(seen)} {how} in {inside}{at} and keeps the GIL: no progress for {duration(one.seconds)}."
    else:
        cause = f"thread {_thread(one)} of {who(seen)} {how} in {inside}{at} and keeps the GIL; the main thread has "
        cause += f"waited for it for {duration(one.seconds)}."
    cause = cause[:1].upper() + cause[1:]
    return case.finding(
        seen,
        cause=cause,
        seen=list(_seen(case, one)),
        remedy=_remedy(one, inside, where),
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("thread", _thread(one)),
        symptom=Symptom.WAITING.value if one.is_main and one.spins else "",
    )


def _seen(case: Case, one: Held) -> Iterator[str]:
    seen, task = one.seen, one.task
    used = f"used {duration(task.cpu)} of CPU time" if one.spins else f"slept in {task.wait_channel or task.syscall}"
    yield (
        f"thread {_thread(one)} (tid {task.tid}) had the GIL at every look, in the same call; "
        f"in {duration(seen.looked)} it {used} and never gave it away"
    )
    frames = [f"{frame.function} ({frame.file.rpartition('/')[2]})" for frame in native(one.stack)[:CALLS]]
    frames = frames or [called(one.stack)]
    frames += [f"{frame.name} ({short(place(frame))})" for frame in one.stack.calls[:CALLS]]
    yield "it is in " + " < ".join(frames)
    if one.waiting:
        times = sum(waiting.switches for waiting in one.waiting)
        names = ", ".join(_name(case, one, waiting.tid) for waiting in one.waiting[:CALLS])
        yield f"{many(len(one.waiting), 'thread')} asked for the GIL {times:,} times meanwhile, in vain: {names}"
    process = recorded(case, seen)
    if process is not None and process.trace_refused:
        yield f"asked for its Flight Recorder, pid {seen.pid} gave no answer: that takes the GIL, too"


def _remedy(one: Held, inside: str, where: Place | None) -> Remedy:
    line = f" (called at {short(where)})" if where is not None else ""
    return Remedy(
        f"Release the GIL around {inside}{line}: Py_BEGIN_ALLOW_THREADS, py::gil_scoped_release, `with nogil`, or "
        "ctypes.CDLL instead of PyDLL. Or give that call a timeout: it has not returned.",
        [f"py-spy dump --native --pid {one.seen.pid}"],
    )


def _thread(one: Held) -> str:
    return one.stack.name or ("MainThread" if one.is_main else str(one.task.tid))


def _name(case: Case, one: Held, tid: int) -> str:
    stack = next((own for own in case.stacks or () if own.pid == one.seen.pid and own.tid == tid), None)
    line = short(place(user_frame(stack.calls))) if stack is not None else ""
    name = stack.name if stack is not None and stack.name else str(tid)
    return f"{name} at {line}" if line else name
