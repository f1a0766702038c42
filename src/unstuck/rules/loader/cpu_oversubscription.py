"""Every worker computes with several threads, and together they are far more than there are processors.

## What it looks at
Threads of each worker, and the processor time of each worker as a whole against that of its main thread alone: the
difference is what its other threads used. Then the processors the training may use, and how long workers that were
ready to run had none.

## Why it happens
OpenMP, OpenBLAS, MKL, OpenCV and tokenizers start a pool of threads in each process, as many as the host has
processors, whatever the container was granted. torch keeps its own pool at one thread in workers, but not the others'.
With several workers their threads wait for each other while none of them can run, often in a loop that burns
processor time.

## What to do
One thread for each worker: `OMP_NUM_THREADS=1` and its kin in the environment, before the libraries are loaded;
`cv2.setNumThreads(0)` in `worker_init_fn`; or `threadpoolctl.threadpool_limits(1)`.

## How sure it is
It is the kernel's own count. Threads that sleep do not count: it speaks only where threads beside the main one use a
fifth of the workers' processor time, threads outnumber processors, workers wait for a processor, the processors are
busy with this training, and its loop waits for data. What it costs depends on the work: with eight threads in each of
two workers on two processors, the same batches took 2.7 times the processor time where every operation was small, and
hardly more where it was large. So it also asks how often a worker is sent off its processor, and speaks from 500 times
a second on: in the two cases measured it was 5,000 and 130.
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

BESIDE = 0.2  # of the processor time, used by threads beside the main one: a feeder thread uses far less
QUEUED = 0.2  # of the time in which workers wanted to run, without a processor
USED = 0.5  # of the processors by the training itself: else somebody else has them, unless
TIMES = 4  # that many threads for each processor: they would be too many without anybody else
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
            yield case.finding(
                main,
                cause=f"{many(_threads(crowd), 'thread')} of {many(len(crowd.workers), 'worker')} compute on "
                f"{many(cpus, 'processor')}: each worker of {loader.name} has a pool of threads of its own, "
                "and they take the processors from each other.",
                seen=list(_seen(crowd, loader, cpus)),
                remedy=_remedy(case, loader),
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
    """Times a second that a worker's main thread had to leave its processor to another thread."""
    return sum(one.preempted for one in crowd.workers) / sum(one.seconds for one in crowd.workers)


def _beside(crowd: Crowd) -> float:
    """Which part of the workers' processor time was used by threads beside the main one."""
    used = sum(one.cpu for one in crowd.workers)
    return sum(one.beside * one.seconds for one in crowd.workers) / used if used else 0.0


def _seen(crowd: Crowd, loader: Loader, cpus: int) -> Iterator[str]:
    most = max(one.threads for one in crowd.workers)
    yield (
        f"a worker has {many(most, 'thread')}, and {percent(_beside(crowd))} of its processor time is used by those "
        "beside the main one"
    )
    yield (
        f"affinity and cgroups grant {many(cpus, 'processor')}; a worker that wants to run waits for one "
        f"{percent(crowd.queued)} of the time, and is sent off it {_sent_off(crowd):,.0f} times a second"
    )
    yield f"the loop waits for data {percent(waiting(loader).share)} of the time"


def _remedy(case: Case, loader: Loader) -> Remedy:
    command = quoted_line(case.run.command)
    init = f", as {loader.worker_init_fn.rpartition('.')[2]} may do," if loader.worker_init_fn else ""
    return Remedy(
        f"Let each worker compute with one thread. Do not call torch.set_num_threads in the dataset or in "
        f"worker_init_fn{init} where torch itself keeps to one; with OpenCV, call cv2.setNumThreads(0) there. For "
        "numpy and other libraries, set the variables below before Python starts.",
        [f"{VARIABLES} {command}"] if command else [],
    )
