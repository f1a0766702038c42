"""The kernel's OOM killer ended a training process itself, not one of its workers.

## What it looks at
The exit status of every main process, as its parent or the watcher saw it, and the kernel's count of OOM kills in its
memory cgroup: whether it moved within seconds of that death. Counts of cgroups above it, or of the whole machine, count
only where memory was nearly full at that moment. Where nothing imports torch, the status of the command itself:
SIGKILL, or 137, which a shell gives when SIGKILL ended what it had started.

## Why it happens
The main process was the largest when the limit was reached. What usually makes it large: the dataset held in memory,
batches waiting to be used, graphs kept alive by losses that are stored without `.item()`, a checkpoint being put
together.

## What to do
Look at how its memory went: steady growth points at something kept every step, a sudden jump at one large
allocation. Lower that, or raise the limit.

## How sure it is
The process was killed by SIGKILL and the count of OOM kills moved at that moment. With exit code 137 it is likely.
Silent otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import COMMAND, SIGKILL, Case
from ...analysis.memory import kills_at, looks_at
from ...evidence import Host
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Process
from ...wording.text import duration, ending, size, who
from ..rule import rule

SHELL_KILLED = 137  # 128 + SIGKILL


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("exits", "host"))
def check(case: Case) -> Iterator[Finding]:
    for seen in sorted(case.exits or (), key=lambda one: one.at):
        process = case.process(seen.node, seen.pid, seen.at) or case.unrecorded_command(seen)
        if process is None or process.role not in ("main", COMMAND) or not _killed(process, seen.status):
            continue
        host, name = case.host_of(process), who(process) if process.role == "main" else "the command"
        kills = kills_at(host, process.pid, seen.at).of_it if host is not None else []
        if host is None or not kills:
            continue
        yield case.finding(
            process,
            cause=f"The kernel's OOM killer ended {name}: the memory limit was reached.",
            seen=[
                f"{name} {ending(seen.status)} after {duration(seen.at)}",
                *(one.told() for one in kills),
                *_growth(host, process.pid),
            ],
            remedy=Remedy(_advice(host)),
            onset_s=seen.at,
            certainty="" if seen.status == SIGKILL else Certainty.LIKELY.value,
        )
        return


def _killed(process: Process, status: int) -> bool:
    """A shell tells it by its exit code."""
    return status == SIGKILL or (process.role == COMMAND and status == SHELL_KILLED)


def _growth(host: Host, pid: int) -> Iterator[str]:
    looks = [value for _, value in looks_at(host, pid, "anonymous") if value]
    if looks:
        yield (
            f"its memory, mapped files and shared memory not counted, went from {size(looks[0])} to {size(looks[-1])} "
            f"between the first and last look"
        )


def _advice(host: Host) -> str:
    limits = [sample.limit for sample in host.samples if sample.limit]
    limit = f"the limit of {size(limits[-1])}" if limits else "the machine's memory"
    return (
        f"Raise {limit}, or lower what this process holds: kept batches and losses, an in-memory dataset, batch_size."
    )
