"""The kernel's OOM killer ended a DataLoader worker.

## What it looks at
The exit status of every worker, and the kernel's own count of OOM kills in the training's memory cgroup (and above it)
from the beginning of the run to its end. The exception that the main process shows plays no part: the same kill
surfaces as "killed by signal", as ConnectionResetError or as EOFError, by race.

## Why it happens
Workers hold memory of their own: what `__getitem__` needs while it runs, batches waiting in the queue (num_workers x
prefetch_factor x batch), shuffle buffers, and copies of Python objects that were shared at the fork. Together with the
main process they reached the limit of the container, the Slurm job or the machine, and the kernel chose the largest.

## What to do
Lower what workers hold at once (num_workers first, then prefetch_factor, then batch_size), or raise the limit. If the
workers' private memory grew all the time, the growth is the fault and smaller numbers only delay it.

## How sure it is
A worker ended by SIGKILL and a counter of OOM kills moved in the same run: that is the kernel's own word for it. It
stays silent when the counters cannot be read, or did not move.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...model.evidence import Evidence, Host
from ...model.phrases import duration, ending, many, size, who
from ...model.questions import SIGKILL, abnormal_worker_exits, host_of, last_memory, oom_kills
from ...model.recorded import Loader, Process
from ...model.report import Certainty, Finding, Remedy, Symptom
from ...model.rule import rule
from ...model.speaking import settings


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording", "exits", "host"),
    outranks=("uncaught-exception", "worker-killed", "worker-python-exception", "main-killed"),
)
def check(evidence: Evidence) -> Iterator[Finding]:
    for seen, worker in abnormal_worker_exits(evidence):
        host = host_of(evidence, worker)
        if seen.status != SIGKILL or host is None:
            continue
        moved = oom_kills(host)
        if not moved:
            continue
        owner = evidence.loader_of(worker)
        yield Finding(
            cause=f"The kernel's OOM killer ended DataLoader {who(worker)}: the memory limit was reached.",
            seen=[
                f"worker {worker.worker} {ending(seen.status)} after {duration(seen.at)}",
                *(
                    f"OOM kills in {name}: {before} before the run, {after} now"
                    for name, (before, after) in moved.items()
                ),
                *_memory(host, worker),
            ],
            remedy=_remedy(host, worker, owner),
            node=worker.node,
            rank=worker.rank,
            worker=worker.worker,
            pid=worker.pid,
            onset_s=seen.at,
            where=owner[1].created if owner else None,
        )
        return


def _memory(host: Host, worker: Process) -> Iterator[str]:
    last = host.samples[-1]
    limits = [sample.limit for sample in host.samples if sample.limit]
    used = [sample.used for sample in host.samples if sample.used]
    if limits and used:
        yield f"the limit is {size(limits[-1])}; {size(max(used))} were in use at the most, page cache not counted"
    elif last.total:
        least = min(one.available for one in host.samples)
        yield f"the machine has {size(last.total)}; {size(least)} were left at the least"
    held = last_memory(host, worker.pid)
    if held is not None:
        yield f"the worker held {size(held.private)} of private memory when last seen"


def _remedy(host: Host, worker: Process, owner: tuple[Process, Loader] | None) -> Remedy:
    limits = [sample.limit for sample in host.samples if sample.limit]
    limit = f"the limit of {size(limits[-1])}" if limits else "the machine's memory"
    if owner is None:
        return Remedy(f"Let the workers hold less at once, or raise {limit}.")
    loader = owner[1]
    parts = [many(loader.num_workers, "worker")]
    if loader.prefetch_factor:
        parts.append(f"prefetch_factor {loader.prefetch_factor}")
    if loader.batch_size:
        parts.append(f"batch_size {loader.batch_size}")
    fewer = max(loader.num_workers // 2, 1)
    wanted = {"num_workers": fewer} if loader.num_workers > 1 else {}
    wanted |= {"prefetch_factor": 1} if (loader.prefetch_factor or 0) > 1 else {}
    smaller = "" if loader.num_workers > 1 else "a smaller batch_size"
    first = "Start with " + ", ".join(one for one in (smaller, settings(loader, **wanted)) if one)
    held = last_memory(host, worker.pid)
    growing = _growth(host, worker.pid)
    text = f"{limit[0].upper()}{limit[1:]} is too small for {', '.join(parts)}. {first}; or raise the limit."
    if held is not None and growing is not None:
        text += (
            f" The worker's private memory grew from {size(growing)} to {size(held.private)}: look for what it keeps."
        )
    return Remedy(text)


def _growth(host: Host, pid: int) -> int | None:
    """Where a worker's private memory started, if it rose in most of its samples and more than doubled."""
    series = [one.private for sample in host.samples for one in sample.processes if one.pid == pid]
    rises = sum(after > before for before, after in pairwise(series))
    if len(series) < 6 or rises < 0.7 * (len(series) - 1) or series[-1] < 2 * series[0]:
        return None
    return series[0]
