"""A process of the run is stopped: it does nothing until somebody lets it go on.

## What it looks at
The state of every process: stopped by a signal, held by a tracer, or frozen with its cgroup; and for how long.

## Why it happens
Somebody pressed Ctrl-Z or sent SIGSTOP, a debugger was attached and left, a scheduler has suspended the job, or the
container was paused.

## What to do
Let it go on: `kill -CONT`, end the debugger, resume the job or the container.

## How sure it is
Sure: the kernel says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import culprit, found, state
from ...analysis.standstill import LONG, main_stack, standing
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import FROZEN, Seen, Stack
from ..rule import Level, rule

ROLES = ("main", "worker", "child", "launcher")


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    stopped = [one for one in case.processes or () if one.role in ROLES and _how(one)]
    for seen in sorted(stopped, key=lambda one: one.role != "worker"):
        stack = main_stack(case, seen.pid) or Stack(pid=seen.pid, tid=seen.pid)
        one = culprit(case, seen, stack)
        if standing(case, seen, stack) < LONG:
            continue
        everybody = len(stopped) > 1
        yield found(
            one,
            f"{one.name} is {_how(seen)}{one.at_sample}, and the run waits for it."
            + (f" So are {len(stopped) - 1} other processes of it." if everybody else ""),
            [state(one)],
            _remedy(seen, stopped),
            case,
        )
        return


def _how(seen: Seen) -> str:
    if any(part in seen.wait_channel for part in FROZEN):
        return "frozen with its cgroup"
    if seen.state == "T":
        return "stopped by a signal (SIGSTOP or Ctrl-Z)"
    if seen.state == "t" and seen.traced_by:
        return f"held by a debugger or tracer (pid {seen.traced_by})"
    return ""


def _remedy(seen: Seen, stopped: list[Seen]) -> Remedy:
    if seen.state == "t":
        return Remedy("Let it go on in the debugger, or detach it.", [f"ps -fp {seen.traced_by}"])
    if seen.state == "T":
        pids = " ".join(str(one.pid) for one in stopped)
        return Remedy(
            "Let it go on. If it stops again, find out who stops it: job control, a scheduler.", [f"kill -CONT {pids}"]
        )
    return Remedy("Resume the container or the job (docker unpause, scontrol resume), or thaw the cgroup.")
