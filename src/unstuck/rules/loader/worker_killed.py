"""Something other than the OOM killer ended a DataLoader worker with SIGKILL.

## What it looks at
The exit status of every worker, and the kernel's counts of OOM kills: they did not move.

## Why it happens
SIGKILL has a sender. If it was not the kernel's OOM killer it was a person, a supervisor, a scheduler that enforces a
limit of its own (Slurm's memory or time limit, a container runtime), or another process of the same user.

## What to do
Ask who ends processes here: the scheduler's log for this job, the supervisor's log, `last` and shell histories. If a
user-space OOM daemon runs (systemd-oomd, earlyoom), its log names the pid.

## How sure it is
Sure that it was SIGKILL and that no OOM kill was counted in the training's memory cgroups. Who sent it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.evidence import Evidence
from ...model.phrases import duration, size, who
from ...model.questions import SIGKILL, abnormal_worker_exits, host_of, last_memory, loader_name, oom_kills
from ...model.report import Certainty, Finding, Remedy, Symptom
from ...model.rule import rule

NOT_OOM = "It was not the kernel's OOM killer."
MAYBE_OOM = "Whether it was the kernel's OOM killer cannot be told here."


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording", "exits", "host"),
    outranks=("uncaught-exception", "worker-python-exception"),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    for seen, worker in abnormal_worker_exits(evidence):
        host = host_of(evidence, worker)
        if seen.status != SIGKILL or host is None or oom_kills(host):
            continue
        owner = evidence.loader_of(worker)
        held = last_memory(host, worker.pid)
        counted = bool(host.samples and host.samples[0].oom_kills)
        yield Finding(
            cause=f"Somebody sent SIGKILL to DataLoader {who(worker)}. {NOT_OOM if counted else MAYBE_OOM}",
            seen=[
                f"worker {worker.worker} ended by SIGKILL after {duration(seen.at)}",
                "the counts of OOM kills above the training did not move"
                if counted
                else "no count of OOM kills can be read here",
                *([f"it held {size(held.private)} of private memory when last seen"] if held else ()),
                *([f"it worked for {loader_name(owner[1])}"] if owner else ()),
            ],
            remedy=Remedy(
                "Find who ends processes here: the scheduler's and supervisor's logs for this job, systemd-oomd or "
                "earlyoom, and people. The kernel's log names the sender only for OOM kills.",
                [f"journalctl --since -1h | grep -i {worker.pid}"],
            ),
            node=worker.node,
            rank=worker.rank,
            worker=worker.worker,
            pid=worker.pid,
            onset_s=seen.at,
            where=owner[1].created if owner else None,
        )
        return
