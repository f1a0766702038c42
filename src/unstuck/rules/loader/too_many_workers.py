"""More workers than CPU cores compute at the same time, and take the cores from each other.

## It means
`num_workers` was taken from a larger machine or from `os.cpu_count()`, which counts the host's cores, not those that
the container, the Slurm job or the pod was granted. Several ranks on one node multiply it. The workers then wait for a
core most of the time, and loading is not faster than with as many workers as there are cores. torch's own warning
respects the affinity, but not a quota of the cgroup.

## Fix
Use as many workers as there are CPU cores to run them, divided by the ranks of the node: the same samples per second
come from fewer workers, with less memory and a shorter start.
```python
# before
loader = DataLoader(dataset, num_workers=os.cpu_count())

# after
cores = len(os.sched_getaffinity(0))
loader = DataLoader(dataset, num_workers=max(cores // ranks_on_this_node, 1))
```
If that is still too slow, samples have to become cheaper, or the job needs more cores:
```sh
sbatch --cpus-per-task=16 job.sh
```

## Check it yourself
```sh
nproc                                                  # cores by affinity
cat /sys/fs/cgroup/cpu.max                             # quota and period: 200000 100000 is 2 cores; max is no limit
cat /sys/fs/cgroup/cpu.stat | grep throttled           # rising: the quota is used up
cat "/proc/$WORKER_PID/schedstat"                      # ns on a core, ns ready but without a core
```

## Not this, if
- each worker runs many threads: [cpu-oversubscription](cpu-oversubscription.md)
- there are enough cores, but all workers are pinned to one: [cpu-affinity-collapsed](cpu-affinity-collapsed.md)
- the workers wait for storage rather than for a core: [dataloader-bound](dataloader-bound.md)

## How sure
Judged from how many CPU cores the training may use, by its affinity and by the cgroups' quota, against the number of
workers on the node, and from the kernel's own count of how these workers were served: CPU time, time in which they were
ready and had no core, how often they were preempted. It speaks only where the loop waits for data, the workers wanted
to run most of the time, waited for a core for a third of that or longer, and the training itself keeps the cores busy:
on a machine that is busy with something else, fewer workers would change little. Workers that mostly wait for storage
may be many: they are left alone.

## Seen in
- https://github.com/embeddings-benchmark/mteb/issues/1331: 104 workers by `os.cpu_count()`, where torch suggests 23;
  the run froze shortly after.
- https://github.com/MIC-DKFZ/ParticleSeg3D/pull/2: torch's warning about a fixed `num_workers=12` on 8 cores.
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

TEXTS = (
    "This DataLoader will create",
    "Our suggested max number of worker in current system is",
    "worker processes in total.",
    "Please be aware that excessive worker creation might get DataLoader running slow or even freeze",
)

WANTED = 0.5  # of a worker's time: a worker that sleeps more than that needs no core of its own
QUEUED = 0.33  # of that: a few more workers than cores hide the moments in which one waits for a file
USED = 0.5  # of the cores by the training itself: else other programs have them, unless
TIMES = 4  # that many workers for each core: they would be too many without other programs, too

OTHERS = [
    Remedy("Make the samples cheaper, or prepare them before the training, to load faster."),
    Remedy("Request more CPU cores for the job (Slurm: --cpus-per-task, Kubernetes: resources.limits.cpu)."),
]


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
                cause=_cause(crowd, loader, cpus),
                seen=list(_seen(crowd, loader, cpus)),
                remedy=_remedy(case, main, loader, cpus),
                alternatives=OTHERS,
                where=loader.created,
                subject=Subject("loader", loader.name),
            )
            break


def _in_the_way(crowd: Crowd, cpus: int) -> bool:
    at_fault = crowd.used >= USED * cpus or len(crowd.workers) >= TIMES * cpus
    return crowd.wanted >= WANTED and crowd.queued >= QUEUED and at_fault


def _has(crowd: Crowd, loader: Loader) -> bool:
    return any(one.process.pid in loader.pids for one in crowd.workers)


def _cause(crowd: Crowd, loader: Loader, cpus: int) -> str:
    own, cores = sum(one.process.pid in loader.pids for one in crowd.workers), many(cpus, "CPU core")
    if own == len(crowd.workers):
        waits = f"its workers wait for a core {percent(crowd.queued)} of the time"
        return f"{loader.name} has num_workers={loader.num_workers} on {cores}: {waits}."
    everyone = many(len(crowd.workers), "worker")
    return f"All loaders of this node have {everyone} on {cores}: they wait for a core most of the time."


def _seen(crowd: Crowd, loader: Loader, cpus: int) -> Iterator[str]:
    ran = sum(one.alone for one in crowd.workers)
    queued = sum(one.queued for one in crowd.workers)
    preempted = sum(one.preempted for one in crowd.workers)
    yield (
        f"over {duration(crowd.seconds)}, {many(len(crowd.workers), 'worker')} ran for {duration(ran)} in all and "
        f"waited for a core for {duration(queued)} ({percent(crowd.queued)}); preempted {preempted:,} times"
    )
    yield f"affinity and cgroups grant {many(cpus, 'CPU core')}; the training uses {crowd.used:.1f}"
    yield f"num_workers={loader.num_workers}; the loop waits for data {percent(waiting(loader).share)} of the time"


def _remedy(case: Case, main: Process, loader: Loader, cpus: int) -> Remedy:
    ranks = sum(one.node == main.node for one, _ in case.training_loaders) or 1
    fewer = max(cpus // ranks, 1)
    each = "" if ranks == 1 else f" in each of the {ranks} ranks of this node"
    count = min(fewer, loader.num_workers)
    return Remedy(
        f"Use {many(count, 'worker')}{each} (now {loader.num_workers}): more do not load faster on "
        f"{many(cpus, 'CPU core')}",
        code=[settings(loader, num_workers=count)],
    )
