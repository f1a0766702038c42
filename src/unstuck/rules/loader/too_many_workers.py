"""More workers than processors compute at the same time, and take them from each other.

## What it looks at
How many processors the training may use, by its affinity and by the cgroups' quota, against the number of workers on
the node; and how the kernel served these workers: processor time, time in which they were ready to run and had no
processor, how often they had to leave theirs to somebody else.

## Why it happens
`num_workers` was taken from a larger machine or from `os.cpu_count()`, which tells of the host's processors and not of
those that the container, the Slurm job or the pod was granted. Several ranks on one node multiply it.

## What to do
As many workers as there are processors to run them, the main process counted; the same samples a second come from
fewer workers, with less memory and a shorter start. If that is still too slow, samples have to become cheaper, or the
job needs more processors. Workers that mostly wait for storage may be many: they are left alone.

## How sure it is
It is the kernel's own count. It speaks only where the loop waits for data, the workers wanted to run most of the time,
waited for a processor for a third of that or longer, and it is the training itself that keeps the processors busy: on a
machine that is busy with something else, fewer workers would change little.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_waiting
from ...analysis.loading import waiting
from ...analysis.processors import Crowd, crowds
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent
from ..rule import rule

WANTED = 0.5  # of a worker's time: one that sleeps more than that is in nobody's way
QUEUED = 0.33  # of that: a few more workers than processors hide the moments in which one waits for a file
USED = 0.5  # of the processors by the training itself: else somebody else has them, unless
TIMES = 4  # that many workers for each processor: they would be too many without anybody else


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording", "host"))
def check(case: Case) -> Iterator[Finding]:
    for crowd in crowds(case):
        cpus = crowd.host.cpus
        if not cpus or len(crowd.workers) <= cpus or not _in_the_way(crowd, cpus):
            continue
        for main, loader in case.training_loaders:
            if main.node != crowd.host.node or not _has(crowd, loader):
                continue
            alone = len(crowd.workers) >= TIMES * cpus
            if not (waiting(loader) if alone else fair_waiting(case, main, loader)).matters:
                continue
            yield case.finding(
                main,
                cause=f"{_who(crowd, loader)} {many(cpus, 'processor')}: a worker that wants to run waits for a "
                f"processor {percent(crowd.queued)} of the time.",
                seen=list(_seen(crowd, loader, cpus)),
                remedy=_remedy(case, main, loader, cpus),
                where=loader.created,
                subject=Subject("loader", loader.name),
            )
            break


def _in_the_way(crowd: Crowd, cpus: int) -> bool:
    at_fault = crowd.used >= USED * cpus or len(crowd.workers) >= TIMES * cpus
    return crowd.wanted >= WANTED and crowd.queued >= QUEUED and at_fault


def _has(crowd: Crowd, loader: Loader) -> bool:
    return any(one.process.pid in loader.pids for one in crowd.workers)


def _who(crowd: Crowd, loader: Loader) -> str:
    own = sum(one.process.pid in loader.pids for one in crowd.workers)
    if own == len(crowd.workers):
        return f"The {own} workers of {loader.name} share"
    return f"The {len(crowd.workers)} workers of all loaders on this node share"


def _seen(crowd: Crowd, loader: Loader, cpus: int) -> Iterator[str]:
    ran = sum(one.alone for one in crowd.workers)
    queued = sum(one.queued for one in crowd.workers)
    preempted = sum(one.preempted for one in crowd.workers)
    yield (
        f"in {duration(crowd.seconds)} the workers ran for {duration(ran)} in all and were ready to run, without a "
        f"processor, for {duration(queued)}; they were sent off theirs {preempted:,} times"
    )
    yield f"affinity and cgroups grant {many(cpus, 'processor')}, and the training keeps {crowd.used:.1f} busy"
    yield f"num_workers is {loader.num_workers}; the loop waits for data {percent(waiting(loader).share)} of the time"


def _remedy(case: Case, main: Process, loader: Loader, cpus: int) -> Remedy:
    ranks = sum(one.node == main.node for one, _ in case.training_loaders) or 1
    fewer = max(cpus // ranks, 1)
    each = "" if ranks == 1 else f" for each of the {ranks} ranks of this node"
    fits = settings(loader, num_workers=min(fewer, loader.num_workers))
    return Remedy(
        f"Set {fits}{each}: that is what {many(cpus, 'processor')} can run at once. More of them do not load faster, "
        "and cost memory and start-up. To load faster, make the samples cheaper, or ask for more processors."
    )
