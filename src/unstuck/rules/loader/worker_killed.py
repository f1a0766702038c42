"""A DataLoader worker was killed with SIGKILL, and not by the kernel's OOM killer.

## It means
SIGKILL has a sender. If it was not the kernel's OOM killer, it was a person, a supervisor, a scheduler that enforces a
limit of its own (Slurm's memory or time limit, a container runtime), or another process of the same user.

## Fix
Find the sender. If a user-space OOM daemon runs (systemd-oomd, earlyoom), its log names the pid. A scheduler says why
in the record of the job.
```sh
journalctl --since -1h -u systemd-oomd -u earlyoom
sacct -j "$SLURM_JOB_ID" --format=JobID,State,ExitCode,MaxRSS,ReqMem
kubectl describe pod "$POD"  # Last State, Reason
```

## Check it yourself
Whether it was the kernel's OOM killer after all:
```sh
journalctl -k --since -1h | grep -iE "out of memory|oom-kill|killed process"
grep oom_kill /sys/fs/cgroup/memory.events
```

## Not this, if
- the kernel's OOM killer killed it: [worker-oom-killed](worker-oom-killed.md)
- the worker crashed by itself (SIGSEGV, SIGBUS, SIGABRT): [worker-segfault](worker-segfault.md)
- every process of the container was killed: [container-oom-killed](container-oom-killed.md)
- the whole job got SIGTERM, at its time limit: [stopped-from-outside](stopped-from-outside.md)

## How sure
Judged from the exit status of every worker and from the kernel's counts of OOM kills: they did not move within seconds
of its death, or only those of cgroups above the training, or of the machine, while memory was far from full. Sure that
it was SIGKILL and that no OOM kill was counted in the training's own memory cgroup at that moment. What sent it is not
known. Where the counts were not read again after the death, it does not say that it was no OOM kill.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import SIGKILL, Case
from ...analysis.memory import held, kills_at, told_of_kill
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, who
from ..rule import Level, rule

TEXTS = (
    "is killed by signal: Killed",
    "exited unexpectedly",
)

NOT_OOM = "not by the kernel's OOM killer"
MAYBE_OOM = "whether by the kernel's OOM killer cannot be told"


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording", "exits", "host"),
    level=Level.GENERAL,
    outranks=("worker-python-exception",),
)
def check(case: Case) -> Iterator[Finding]:
    for seen, worker in case.abnormal_worker_exits:
        host = case.host_of(worker)
        if seen.status != SIGKILL or host is None:
            continue
        kills = kills_at(host, worker.pid, seen.at)
        if kills.of_it:
            continue
        owner = case.owner_of(worker.node, worker.pid)
        memory = held(host, worker)
        yield case.finding(
            worker,
            cause=f"DataLoader {who(worker)} was killed (SIGKILL), {NOT_OOM if kills.known else MAYBE_OOM}.",
            seen=[
                *told_of_kill(host, worker.pid, seen.at),
                f"it was killed after {duration(seen.at)}",
                *([f"its memory: {memory}"] if memory else ()),
                *([f"loader: {owner.loader.name}"] if owner else ()),
            ],
            remedy=Remedy(
                "Find what sent SIGKILL: look in the logs of the scheduler, the supervisor, systemd-oomd and earlyoom",
                [f"journalctl --since -1h | grep -iE 'oom|{worker.pid}'"],
            ),
            onset_s=seen.at,
            where=owner.loader.created if owner else None,
        )
        return
