"""Who holds Python's global interpreter lock (GIL) and does not let go of it, and who waits for it."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from ..evidence.live import Frame, Seen, Stack, Task
from .case import Case, once
from .stacks import is_idle_worker, waits_for_ranks
from .standstill import LONG, computes, gets_on, idles, in_futex, main_stack, recorded, standing, suspects

ASKING = 20  # times a second: who wants the GIL asks for it every 5 ms, on a busy machine less often
GIVEN = 2  # times a second: who gives the GIL away sleeps until another thread has taken it, some 200 times a second
A_MINUTE = 60.0  # seconds: a native computation may keep the GIL for its whole length, and most are over by then
LIBC = ("libc.", "libc-", "libpthread")
SYSTEM = (*LIBC, "ld-linux", "libffi", "libpython", "python3", "_ctypes.", "linux-vdso", "linux-gate")


class Held(NamedTuple):
    """A thread that had the GIL whenever it was looked at, in one and the same call."""

    seen: Seen
    stack: Stack
    task: Task
    seconds: float
    waiting: list[Task]  # threads of the process that ask for the GIL all the time, and do not get it

    @property
    def is_main(self) -> bool:
        return self.stack.is_main

    @property
    def spins(self) -> bool:
        return computes(self.task, self.seen.looked)


@once
def held(case: Case) -> list[Held]:
    """For long enough."""
    return [one for one in _candidates(case) if one.seconds >= _patience(one)]


def needs_patience(case: Case) -> float:
    """Seconds for which it has to be looked at until it is sure. 0: nobody keeps the GIL, or it is sure already."""
    return max((LONG - one.seconds + 0.5 for one in _candidates(case) if one.seconds < LONG), default=0.0)


@once
def _candidates(case: Case) -> list[Held]:
    """In main processes, and in workers that one of them waits for."""
    awaited = {worker.pid for _, worker, _ in suspects(case)}
    asked = [one for one in case.processes or () if not one.ended and (one.role == "main" or one.pid in awaited)]
    return [found for one in asked if (found := _held(case, one)) is not None and _matters(found)]


def _held(case: Case, seen: Seen) -> Held | None:
    stacks = [one for one in case.stacks or () if one.pid == seen.pid]
    holder = next((one for one in stacks if one.holds_gil and one.held_gil and one.unchanged), None)
    task = seen.task(holder.tid) if holder is not None else None
    if holder is None or task is None or not _keeps(task, seen):
        return None
    others = [one for one in stacks if one.tid != holder.tid and one.unchanged]
    waiting = [own for one in others if (own := seen.task(one.tid)) is not None and asks(own, seen.looked)]
    return Held(seen, holder, task, _seconds(case, seen, task), waiting)


def asks(task: Task, looked: float) -> bool:
    """It waits with a time limit that runs out all the time, and uses next to no CPU: so does who waits for the GIL.

    On a busy machine it may be met when the time has run out and it has no core yet.
    """
    waits = (in_futex(task) and task.limited) or (task.state == "R" and not task.syscall)
    return waits and task.switches >= ASKING * max(looked, 0.1) and idles(task, looked)


def _keeps(task: Task, seen: Seen) -> bool:
    """It did not give the GIL away between the looks: it slept all the time, or computed and never slept."""
    if task.state == "D":  # storage, or pages of a mapped file: that ends by itself
        return False
    if computes(task, seen.looked):
        return task.switches - task.preempted <= GIVEN * max(seen.looked, 1.0) and not gets_on(seen)
    return task.state == "S" and idles(task, seen.looked)


def _matters(one: Held) -> bool:
    """Another thread keeps it: the main thread waits for it. The main thread does: in native code, and for no rank."""
    if not one.is_main:
        return any(task.tid == one.seen.pid for task in one.waiting)
    if waits_for_ranks(one.stack.frames) or is_idle_worker(one.stack.calls):
        return False
    return not one.spins or bool(native(one.stack))


def _patience(one: Held) -> float:
    return A_MINUTE if one.is_main and one.spins else LONG


def _seconds(case: Case, seen: Seen, task: Task) -> float:
    """For as long as it certainly was so: by the recording, by how long it has slept, or was looked at."""
    main = main_stack(case, seen.pid)
    if main is not None and recorded(case, seen) is not None:
        return standing(case, seen, main)
    rounds = seen.rounds
    watched = rounds.seconds if rounds is not None and len(rounds.samples) == 1 else 0.0
    return max(task.still or 0.0, seen.looked, watched)


def keeps_gil(stack: Stack) -> bool:
    """Both looks found it in one call of native code, an extension's, with the GIL."""
    return stack.holds_gil and stack.held_gil and stack.unchanged and bool(native(stack))


def native(stack: Stack) -> list[Frame]:
    """Native calls on top of the stack, innermost first, without those that Python and the system put around them."""
    return [one for one in _on_top(stack) if not _library(one).startswith(SYSTEM)]


def called(stack: Stack) -> str:
    """The native function that it is in, and of which library: an extension's, else the system's that was called."""
    own, system = native(stack), [one for one in _on_top(stack) if _library(one).startswith(LIBC)]
    frame = own[0] if own else system[-1] if system else None
    return "native code" if frame is None else f"{frame.function} ({_library(frame)})"


def _on_top(stack: Stack) -> list[Frame]:
    """Those that have a name."""
    return [one for one in takewhile(lambda one: one.native, stack.frames) if not one.function.startswith("0x")]


def _library(frame: Frame) -> str:
    return frame.file.rpartition("/")[2]
