"""The memory limit ended the whole run at once, and the watcher with it.

## What it looks at
A run that nobody saw to its end: the watcher's journal breaks off, no recorded process said goodbye, and none is alive.
Then the journal's last samples: the limit of the memory cgroup, what was in use without page cache, and the kernel's
count of OOM kills, which is read once more afterwards where the cgroup still exists.

## Why it happens
A container dies as a whole when its first process is killed, and a cgroup with `memory.oom.group` (Kubernetes sets it)
is killed as a whole in any case. Nothing inside is left to tell, so the run looks as if it had simply stopped.

## What to do
Raise the container's or the job's memory limit, or lower what the processes hold together: workers, prefetched
batches, shuffle buffers, caches. The samples say who held how much in the end.

## How sure it is
Sure when the counter of the run's own cgroup moved after the last look. Without a counter it needs memory within 5 % of
the limit, page cache not counted, at the last look: a full page cache is normal and never enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.memory import kills_at_the_end
from ...evidence import Sample
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, size, who
from ..rule import rule

NEARLY_FULL = 0.95  # the watcher looks twice a second: the last steps to the limit may fall between two looks


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "host"), outranks=("main-oom-killed",))
def check(case: Case) -> Iterator[Finding]:
    for host in case.host or ():
        here = [one for one in case.recording or () if one.node == host.node]
        looks = [sample for sample in host.samples if sample.processes] or host.samples
        if host.watcher_ended or host.processes_alive or not looks or not here:
            continue
        if any(one.alive or one.ended is not None or one.failure for one in here if one.role != "worker"):
            continue
        last = looks[-1]
        kills = kills_at_the_end(host).of_it
        near = last.limit is not None and last.used is not None and last.used >= NEARLY_FULL * last.limit
        if not kills and not near:
            continue
        yield case.finding(
            host,
            cause="The memory limit was reached, and the kernel ended the whole run at once, the watcher with it.",
            seen=[
                f"the journal breaks off after {duration(last.at)}, and no process said goodbye",
                *(one.told() for one in kills),
                *_use(last),
                *_largest(case, host.node, last),
            ],
            remedy=Remedy(_advice(last)),
            onset_s=last.at,
        )


def _use(last: Sample) -> Iterator[str]:
    if last.limit is not None and last.used is not None:
        yield f"{size(last.used)} of {size(last.limit)} were in use at the last look, page cache not counted"
    elif last.total:
        yield f"{size(last.available)} of {size(last.total)} were left on the machine at the last look"


def _largest(case: Case, node: str, last: Sample) -> Iterator[str]:
    for memory in sorted(last.processes, key=lambda one: one.anonymous, reverse=True)[:3]:
        process = case.process(node, memory.pid)
        if process is not None:
            forked = " with what it shared since the fork" if process.threads_at_fork is not None else ""
            yield f"{who(process)} held {size(memory.anonymous)}{forked}, and {size(memory.shared)} of shared memory"


def _advice(last: Sample) -> str:
    limit = f"the limit of {size(last.limit)}" if last.limit else "the machine's memory"
    return f"Raise {limit}, or lower what the processes above hold together: num_workers, prefetch_factor, batch_size."
