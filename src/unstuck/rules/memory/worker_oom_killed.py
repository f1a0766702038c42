"""The kernel's OOM killer ended a DataLoader worker.

## What it looks at
The exit status of every worker, and the kernel's own count of OOM kills in the training's memory cgroup: whether it
moved within seconds of the worker's death. The counts of cgroups above it and of the whole machine also move for
others: they count only where memory was nearly full at that moment. The exception that the main process shows plays no
part: the same kill surfaces as "killed by signal", as ConnectionResetError or as EOFError, by race.

Then how the worker's memory went: whether it rose with the one sample that was being loaded, or from batch to batch.

## Why it happens
Workers hold memory of their own: what `__getitem__` needs while it runs, batches waiting in the queue (num_workers x
prefetch_factor x batch), shuffle buffers, and copies of Python objects that were shared at the fork. Together with the
main process they reached the limit of the container, the Slurm job or the machine, and the kernel chose the largest.

## What to do
If one sample is named, look at that one: no setting of the loader makes it smaller. If the worker's memory grew from
batch to batch, the growth is the fault and smaller numbers only delay it. Else use the settings that are named, which
fit by the numbers of this run, or raise the limit.

## How sure it is
A worker was killed by SIGKILL and the count of OOM kills moved at that moment: that is the kernel's own word for it. It
stays silent when the counters cannot be read, or moved at another time (worker-killed). A sample is named if memory
rose four times as much with it as it moved by with all samples before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import SIGKILL, Case
from ...analysis.memory import COMFORTABLE, Large, Needs, held, in_hand, kept, kills_at, needs_of
from ...evidence import Host
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, ending, many, size, who
from ..rule import rule

PREFETCH = 2  # torch's default


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "exits", "host"))
def check(case: Case) -> Iterator[Finding]:
    for seen, worker in case.abnormal_worker_exits:
        host = case.host_of(worker)
        if seen.status != SIGKILL or host is None:
            continue
        kills = kills_at(host, worker.pid, seen.at).of_it
        if not kills:
            continue
        owner, large = case.owner_of(worker.node, worker.pid), in_hand(host, worker)
        during = f" while it loaded sample {large.sample}" if large is not None else ": the memory limit was reached"
        yield case.finding(
            worker,
            cause=f"The kernel's OOM killer ended DataLoader {who(worker)}{during}.",
            seen=[
                f"worker {worker.worker} {ending(seen.status)} after {duration(seen.at)}",
                *(one.told() for one in kills),
                *([_told(large)] if large is not None else ()),
                *_memory(host, worker),
            ],
            remedy=_remedy(case, host, worker, large),
            onset_s=seen.at,
            where=owner.loader.created if owner else None,
            subject=Subject("sample", str(large.sample)) if large is not None else None,
        )
        return


def _told(large: Large) -> str:
    file = f" ({large.file})" if large.file else ""
    return (
        f"sample {large.sample}{file} had taken {size(large.grown)} or more; the {many(large.samples, 'sample')} "
        f"before it moved the worker's memory by {size(large.usual)} at most"
    )


def _memory(host: Host, worker: Process) -> Iterator[str]:
    last = host.samples[-1]
    limits = [sample.limit for sample in host.samples if sample.limit]
    used = [sample.used for sample in host.samples if sample.used]
    if limits and used:
        yield f"the limit is {size(limits[-1])}; {size(max(used))} were in use at most, page cache not counted"
    elif last.total:
        least = min(one.available for one in host.samples)
        yield f"the machine has {size(last.total)}; {size(least)} were left at the least"
    if (told := held(host, worker)) is not None:
        yield f"the worker held {told}"


def _remedy(case: Case, host: Host, worker: Process, large: Large | None) -> Remedy:
    limits = [sample.limit for sample in host.samples if sample.limit]
    limit = f"the limit of {size(limits[-1])}" if limits else "the machine's memory"
    grew, owner = kept(host, worker), case.owner_of(worker.node, worker.pid)
    if large is not None:
        file = f", {large.file}" if large.file else ""
        return Remedy(
            f"Look at sample {large.sample}{file}: read it in parts, make it smaller or leave it out; or raise {limit}."
            f" Fewer workers, or fewer batches ahead, do not make it smaller."
        )
    if grew is not None:
        return Remedy(
            f"Find what the dataset keeps from sample to sample: the worker's memory grew from {size(grew[0])} to "
            f"{size(grew[1])} and did not level off. Fewer workers, or raising {limit}, only delay it."
        )
    needs = needs_of(case, host, worker.pid) if owner is not None else None
    if owner is None or needs is None:
        return Remedy(f"Let the workers hold less at once, or raise {limit}.")
    return _by_numbers(needs, owner.loader, limit)


def _by_numbers(needs: Needs, loader: Loader, limit: str) -> Remedy:
    """Only what fits by what was measured, with that number."""
    ahead = loader.prefetch_factor or PREFETCH
    now, fitting = needs.of(loader.num_workers, ahead), needs.settings(loader.num_workers, ahead)
    parts = f"up to {size(needs.worker)} for each worker and {size(needs.batch)} for each batch that waits"
    if not needs.settled or now <= needs.limit:
        why = "the workers were still taking more" if not needs.settled else "that does not add up to the limit"
        return Remedy(
            f"Make samples smaller, lower batch_size or num_workers, or raise {limit}. Which setting fits is not known:"
            f" the run had taken {parts}, and {why}."
        )
    enough = f"raise {limit} above {size(now / COMFORTABLE)}"
    if fitting is None:
        least = settings(loader, num_workers=1, prefetch_factor=1)
        return Remedy(
            f"Make samples smaller, lower batch_size, or {enough}: even {least} would take about "
            f"{size(needs.of(1, 1))}, {parts}."
        )
    wanted = {"num_workers": fitting[0], "prefetch_factor": fitting[1]}
    return Remedy(
        f"Use {settings(loader, **wanted)}, which would take about {size(needs.of(*fitting))}; or {enough}. "
        f"The run took {parts}."
    )
