"""A process of the run is stopped: it does nothing until it is resumed.

## It means
Ctrl-Z was pressed, or something sent SIGSTOP, a debugger was attached and left, a scheduler has suspended the job, or
the container was paused. The rest of the run waits for this process.

## Fix
Resume it:
```sh
kill -CONT "$PID"
```
Or detach the debugger, or resume the job or the container:
```sh
scontrol resume "$SLURM_JOB_ID"
docker unpause "$CONTAINER"
```

## Check it yourself
```sh
ps -o pid,stat,wchan:20,cmd -p "$PID"                 # T: stopped by a signal; t: held by a tracer
grep TracerPid "/proc/$PID/status"                    # the debugger, if it is not 0
grep frozen /sys/fs/cgroup/cgroup.events              # 1: the cgroup is frozen
```

## Not this, if
- it is asleep in a read: [worker-blocked-io](worker-blocked-io.md)
- it waits for a lock: [fork-inherited-lock](fork-inherited-lock.md)
- all processes run, but rarely get a core: [cpu-oversubscription](cpu-oversubscription.md)

## How sure
Judged from the state of every process: stopped by a signal, held by a tracer, or frozen with its cgroup, and for how
long. Sure: the kernel says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import culprit, found, state
from ...analysis.standstill import LONG, main_stack, standing
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import FROZEN, Seen, Stack
from ...wording.text import many
from ..rule import Level, rule

ROLES = ("main", "worker", "child", "launcher")
AGAIN = Remedy("If it stops again: find what stops it, such as job control or a scheduler.")


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    stopped = [one for one in case.processes or () if one.role in ROLES and _how(one)]
    for seen in sorted(stopped, key=lambda one: one.role != "worker"):
        stack = main_stack(case, seen.pid) or Stack(pid=seen.pid, tid=seen.pid)
        one = culprit(case, seen, stack)
        if standing(case, seen, stack) < LONG:
            continue
        others = many(len(stopped) - 1, "other process")
        yield found(
            one,
            f"{one.name} is {_how(seen)}{one.at_sample}; the run waits.",
            [state(one), *([f"{others} of the run stopped, too"] if len(stopped) > 1 else ())],
            _remedy(seen, stopped),
            case,
            alternatives=[AGAIN] if seen.state == "T" else [],
        )
        return


def _how(seen: Seen) -> str:
    if any(part in seen.wait_channel for part in FROZEN):
        return "frozen with its cgroup"
    if seen.state == "T":
        return "stopped (SIGSTOP or Ctrl-Z)"
    if seen.state == "t" and seen.traced_by:
        return f"held by debugger (pid {seen.traced_by})"
    return ""


def _remedy(seen: Seen, stopped: list[Seen]) -> Remedy:
    if seen.state == "t":
        return Remedy("Continue it in the debugger, or detach the debugger", [f"ps -fp {seen.traced_by}"])
    if seen.state == "T":
        return Remedy("Resume it", [f"kill -CONT {' '.join(str(one.pid) for one in stopped)}"])
    return Remedy("Resume the container or the job (docker unpause, scontrol resume), or thaw the cgroup.")
