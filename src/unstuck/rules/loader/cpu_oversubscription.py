"""Every worker computes with several threads; together they are far more than the CPU cores.

## It means
OpenMP, OpenBLAS, MKL, OpenCV and tokenizers start a pool of threads in each process, as many as the host has cores,
whatever the container was granted. torch keeps its own pool at one thread in workers, but not the pools of others. With
several workers their threads preempt each other all the time, often in a loop that burns CPU time while it waits.

## Fix
One thread per worker. For numpy, scipy and other OpenMP or BLAS libraries, before Python starts:
```sh
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 python train.py
```
That holds for the main process, too. If it needs its threads (training on the CPU), set the limit in the workers only:
```python
from threadpoolctl import threadpool_limits

def one_thread(worker_id):
    threadpool_limits(1)     # numpy, scipy
    cv2.setNumThreads(0)     # OpenCV has a pool of its own

loader = DataLoader(dataset, num_workers=4, worker_init_fn=one_thread)
```
Remove calls of `torch.set_num_threads` from the dataset and from `worker_init_fn`: without them torch uses one thread
in a worker.

## Check it yourself
Threads of each worker, and how often each of them is preempted:
```sh
for pid in $(pgrep -P "$MAIN_PID"); do
    grep -E "^Threads" "/proc/$pid/status"
    cat /proc/$pid/task/*/status | grep nonvoluntary
done
```
Which pools are loaded, and how large they are (run it in `worker_init_fn`):
```python
print(threadpoolctl.threadpool_info(), torch.get_num_threads())
```

## Not this, if
- workers have one thread each, but are too many: [too-many-workers](too-many-workers.md)
- workers are pinned to few cores: [cpu-affinity-collapsed](cpu-affinity-collapsed.md)
- a worker does not move at all inside OpenMP: [fork-after-openmp](fork-after-openmp.md)
- one sample is costly to compute, with one thread: [heavy-transform](heavy-transform.md)

## How sure
Judged by the kernel's own count: the threads of each worker, the CPU time of each worker against that of its main
thread alone (the difference is what its other threads used), the cores that the training may use, and how long workers
that were ready to run had none. Threads that sleep do not count: it speaks only where threads other than the main one
use a fifth of the workers' CPU time, threads outnumber cores, workers wait for a core, the cores are busy with this
training, and its loop waits for data. What it costs depends on the work: with eight threads in each of two workers on
two cores, the same batches took 2.7 times the CPU time where every operation was small, and hardly more where it was
large. So it also asks how often a worker is preempted, and speaks from 500 times a second on: in the two cases measured
it was 5,000 and 130.

## Seen in
- https://github.com/open-mmlab/mmdetection/pull/6867: OpenCV started one thread per core in every worker, thousands in
  all; limiting it made training faster.
- https://github.com/liebharc/homr/pull/128: `cv2.setNumThreads(0)` in 12 workers reduced CPU use at equal speed.
- https://github.com/pytorch/pytorch/issues/82219: a request for a thread limit in the DataLoader, because of
  oversubscription.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import holds_up, waiting
from ...analysis.processors import Crowd, crowds
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...wording.printable import quoted_line
from ...wording.text import many, percent
from ..rule import rule

BESIDE = 0.2  # of the CPU time, used by threads other than the main one: a feeder thread uses far less
QUEUED = 0.2  # of the time in which workers wanted to run, without a core
USED = 0.5  # of the cores by the training itself: else other programs have them, unless
TIMES = 4  # that many threads for each core: they would be too many on an idle machine
SENT_OFF = 500  # times a second: with large operations it is some tens, and nothing is lost by that
OWN = 3  # threads that every worker has: its main thread, one that feeds its queue, one that passes descriptors on
VARIABLES = "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1"


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording", "host"),
    outranks=("too-many-workers",),
    applies_to_trials=True,
)
def check(case: Case) -> Iterator[Finding]:
    for crowd in crowds(case):
        cpus = crowd.host.cpus
        if not cpus or not _oversubscribed(crowd, cpus):
            continue
        for main, loader in case.loaders_in_use:
            mine = any(one.process.pid in loader.pids for one in crowd.workers)
            if main.node != crowd.host.node or not mine or not holds_up(case, loader):
                continue
            fix, *others = _ways(case, loader)
            yield case.finding(
                main,
                cause=f"Workers run {many(_threads(crowd), 'thread')} on {many(cpus, 'CPU core')} and preempt "
                "each other: every worker has its own thread pool.",
                seen=list(_seen(crowd, loader, cpus)),
                remedy=fix,
                alternatives=others,
                where=loader.created,
                subject=Subject("loader", loader.name),
            )
            break


def _threads(crowd: Crowd) -> int:
    """Those that may compute."""
    return sum(max(one.threads - OWN + 1, 1) for one in crowd.workers)


def _oversubscribed(crowd: Crowd, cpus: int) -> bool:
    pools = all(one.threads > OWN for one in crowd.workers)
    at_fault = crowd.used >= USED * cpus or _threads(crowd) >= TIMES * cpus
    crowded = _threads(crowd) > cpus and crowd.queued >= QUEUED and _sent_off(crowd) >= SENT_OFF
    return pools and at_fault and crowded and _beside(crowd) >= BESIDE


def _sent_off(crowd: Crowd) -> float:
    """How often a worker's main thread was preempted, per second."""
    return sum(one.preempted for one in crowd.workers) / sum(one.seconds for one in crowd.workers)


def _beside(crowd: Crowd) -> float:
    """Which part of the workers' CPU time was used by threads other than the main one."""
    used = sum(one.cpu for one in crowd.workers)
    return sum(one.beside * one.seconds for one in crowd.workers) / used if used else 0.0


def _seen(crowd: Crowd, loader: Loader, cpus: int) -> Iterator[str]:
    most = max(one.threads for one in crowd.workers)
    yield f"each worker is preempted {_sent_off(crowd):,.0f} times a second"
    yield (
        f"{many(len(crowd.workers), 'worker')} with up to {many(most, 'thread')} each; threads other than the main one "
        f"use {percent(_beside(crowd))} of the CPU time"
    )
    yield f"a worker that is ready to run waits for a core {percent(crowd.queued)} of the time"
    yield f"affinity and cgroups grant {many(cpus, 'CPU core')}"
    yield f"the loop waits for data {percent(waiting(loader).share)} of the time"
    yield f"loader: {loader.name}, num_workers={loader.num_workers}"


def _ways(case: Case, loader: Loader) -> list[Remedy]:
    """The fix, and other ways out."""
    command = quoted_line(case.run.command) or "python train.py"
    init = f" ({loader.worker_init_fn.rpartition('.')[2]})" if loader.worker_init_fn else ""
    return [
        Remedy("Start with one thread per process (the main process included)", [f"{VARIABLES} {command}"]),
        Remedy(
            f"If the dataset or worker_init_fn{init} calls torch.set_num_threads, remove that: torch itself keeps "
            "workers at one thread."
        ),
        Remedy("With OpenCV, switch its pool off in worker_init_fn", code=["cv2.setNumThreads(0)"]),
    ]
