"""Something other than the OOM killer ended a DataLoader worker with SIGKILL.

## What it looks at
The exit status of every worker, and the kernel's counts of OOM kills: they did not move within seconds of its death, or
only those of cgroups above the training, or of the machine, while memory was far from full.

## Why it happens
SIGKILL has a sender. If it was not the kernel's OOM killer it was a person, a supervisor, a scheduler that enforces a
limit of its own (Slurm's memory or time limit, a container runtime), or another process of the same user.

## What to do
Ask who ends processes here: the scheduler's log for this job, the supervisor's log, `last` and shell histories. If a
user-space OOM daemon runs (systemd-oomd, earlyoom), its log names the pid.

## How sure it is
Sure that it was SIGKILL and that no OOM kill was counted in the training's own memory cgroup at that moment. Who sent
it is not known. Where the counts were not read again after the death, it does not say that it was no OOM kill.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import SIGKILL, Case
from ...analysis.memory import held, kills_at, told_of_kill
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, who
from ..rule import Level, rule

NOT_OOM = "It was not the kernel's OOM killer."
MAYBE_OOM = "Whether it was the kernel's OOM killer cannot be told here."


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
            cause=f"Somebody sent SIGKILL to DataLoader {who(worker)}. {NOT_OOM if kills.known else MAYBE_OOM}",
            seen=[
                f"worker {worker.worker} ended by SIGKILL after {duration(seen.at)}",
                *told_of_kill(host, worker.pid, seen.at),
                *([f"it held {memory}"] if memory else ()),
                *([f"it worked for {owner.loader.name}"] if owner else ()),
            ],
            remedy=Remedy(
                "Find who ends processes here: the scheduler's and supervisor's logs for this job, systemd-oomd or "
                "earlyoom, and people. The kernel's log names the sender only for OOM kills.",
                [f"journalctl --since -1h | grep -i {worker.pid}"],
            ),
            onset_s=seen.at,
            where=owner.loader.created if owner else None,
        )
        return
