"""The training loop spends too much of its time waiting for data.

## It means
Samples take longer to load than batches take to train on, and there are too few workers to hide that: too few CPU
cores, slow storage, a costly decode or augmentation. With `num_workers=0` the training process itself loads every
batch, and nothing else happens. Where the waits come in stripes, one long wait in as many batches as there are workers,
the workers started together and still work in step. A larger `prefetch_factor` only smooths that.

## Fix
What this run's evidence points at. While CPU cores are idle and workers are busy, more workers:
```python
# before
loader = DataLoader(dataset, batch_size=32)
# after
loader = DataLoader(dataset, batch_size=32, num_workers=8, persistent_workers=True, pin_memory=True)
```
Each worker costs memory: its own copy of what the dataset changes, and `prefetch_factor` batches. When all cores are in
use, cheaper samples: decode to the size that is needed, store the data preprocessed, augment whole batches on the GPU.
When workers wait rather than compute, faster or nearer storage, and larger reads. What is advised to one rank is done
by all of them, so the idle cores are divided by the number of ranks. Workers started by spawn or forkserver import
everything again, so they should stay from epoch to epoch (`persistent_workers=True`).

## Check it yourself
Time the loader alone. If it is no faster than the training, it is the limit:
```python
start = time.perf_counter()
batches = sum(1 for _ in itertools.islice(loader, 100))
print((time.perf_counter() - start) / batches, "s per batch")
```
See whether the workers compute or wait while the training runs:
```sh
top -b -n 1 -p "$(pgrep -d , -P "$MAIN_PID")"
nvidia-smi --query-gpu=utilization.gpu --format=csv -l 1
```

## Not this, if
- single slow samples hold everything up: [in-order-head-of-line](in-order-head-of-line.md)
- only the first batch is slow: [first-batch-slow](first-batch-slow.md)
- the time goes into starting workers: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md),
  [next-iter-every-step](next-iter-every-step.md)
- it goes into sending batches: [huge-storage-slice](huge-storage-slice.md), [many-small-tensors](many-small-tensors.md)
- workers fight for CPU cores: [too-many-workers](too-many-workers.md),
  [cpu-oversubscription](cpu-oversubscription.md), [cpu-affinity-collapsed](cpu-affinity-collapsed.md)
- only one rank is slow: [straggler-rank](straggler-rank.md)

## How sure
Judged, for each loader that is trained on, from how long every `next()` took against how long the loop's body took, the
first batch of each epoch left aside. Then from what the time in the workers went into (the dataset's own code,
collating, waiting for an index), how much of it was CPU time, and how many cores the training may use. All processes of
the node count by the CPU time that they used: every rank with its workers and threads, and other programs. Where stages
of the work on a sample are known (`unstuck.stage`; readers of numpy, torch and Pillow), it says which takes most, and
whether that one computes, reads or waits.

Certain of the shares: they are measured over every step. It speaks from 30 % waiting and 2 ms a step on, in a loop of
at least ten batches and five seconds, so a short trial, a warm-up or a small model on data in memory stays quiet. Time
in which the run was ready and other programs had the CPU cores is left out, by the kernel's count. A GPU that is busy
90 % of the time has enough to do, whatever the loop waits for. Where that cannot be known (no utilisation rate, as with
MIG and ROCm, or a GPU that other processes use, too), the finding is only possible, and the evidence says so. Of a run
that was not recorded, `unstuck why PID --seconds N` samples the stacks: how often the loop was waiting for data, and at
which line of a sample its workers were. That gives the same shares within a few per cent: it keeps quiet unless the
loop was seen to do something with its batches, and while the workers are only starting.

## Seen in
- https://github.com/mlfoundations/open_clip/issues/703: a freeze every num_workers iterations, with slow storage.
- https://github.com/Lightning-AI/pytorch-lightning/issues/1322: a pause after every 4 steps, solved by more workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case, is_users
from ...analysis.cpu_contention import fair_waiting, left_out
from ...analysis.gpu import GPU_BUSY, gpu_use
from ...analysis.loading import Spread, handing, on_core, spread, stripes
from ...analysis.loading import fetching as fetching_of
from ...analysis.memory import oom_killed
from ...analysis.processors import queueing
from ...analysis.stages import in_words
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short
from ..rule import Level, rule
from ._loading_share import IDLE, SENDING, SHARE, off_core
from ._sampled_loop import sampled
from ._torchdata import is_of_nodes
from ._torchdata import ways as ways_of_nodes
from ._torchdata import why as why_of_nodes
from ._worker_count import Room, advice, room

BATCHES = 10
SECONDS = 5.0  # of looping: below that, start-up effects are all there is
LONG = 0.002  # seconds of waiting a step: below that, sending a batch from a worker would cost as much
ELSEWHERE = Remedy("Time what else each batch takes: the sampler, a batch_sampler, pin_memory.")


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording|samples",), level=Level.ECHO)
def check(case: Case) -> Iterator[Finding]:
    yield from _recorded(case) if case.recording is not None else sampled(case)


def _recorded(case: Case) -> Iterator[Finding]:
    for main, loader in case.training_loaders:
        loop = fair_waiting(case, main, loader)
        if loop.steps < BATCHES or loop.lasted < SECONDS or loop.share < SHARE or loop.waited < LONG * loop.steps:
            continue
        gpu = gpu_use(case, main)
        if (gpu.busy or 0.0) >= GPU_BUSY:  # it still has work while the main thread waits for more
            continue
        if oom_killed(case, [main, *case.workers_of(main, loader)]) is not None:
            continue  # more workers would take more memory: that there was too little comes first
        fetching, space = fetching_of(case, main, loader), room(case, main, loader)
        parts = _spread(case, main, loader, fetching)
        fix, *others = _ways(loader, fetching, space, parts)
        yield case.finding(
            main,
            cause=f"Training waits for data {percent(loop.share)} of the time: {_why(loader, fetching, space, parts)}.",
            seen=[
                *_seen(loader, fetching, space, parts),
                *in_words(case, main, loader),
                *left_out(case, main, loader, loop),
                f"loader: {loader.name}",
                *gpu.words,
            ],
            remedy=fix,
            alternatives=others,
            certainty=gpu.certainty,
            where=loader.reads_at if is_users(loader.reads_at) else loader.created,
            subject=Subject("loader", loader.name),
        )


def _spread(case: Case, main: Process, loader: Loader, fetching: list[Fetching]) -> Spread | None:
    """What loading goes into: computing, waiting for a CPU core by the kernel's count, other waiting."""
    share = on_core(fetching)
    loads = case.workers_of(main, loader) if loader.num_workers else [main]
    return None if share is None else spread(share, queueing(case, main, loads))


def _why(loader: Loader, fetching: list[Fetching], space: Room, parts: Spread | None) -> str:
    if is_of_nodes(loader):
        return why_of_nodes(loader)
    if _has_no_room(loader, space, parts):
        return "there is no free CPU core to load with"
    if loader.num_workers == 0:
        return "num_workers=0 loads every batch in the training process"
    if _busy(fetching) < IDLE:
        return "its workers are mostly idle, so samples are not the bottleneck"
    return f"{many(loader.num_workers, 'worker')} cannot keep up"


def _has_no_room(loader: Loader, space: Room, parts: Spread | None) -> bool:
    return space.is_full and space.most(loader.num_workers, parts) <= loader.num_workers


def _busy(fetching: list[Fetching]) -> float:
    worked = sum(one.fetches.total for one in fetching)
    idle = sum(one.idle.total for one in fetching)
    return worked / (worked + idle) if worked else 0.0


def _parts(fetching: list[Fetching]) -> tuple[float, float, float]:
    """Seconds of fetching in all, in the dataset's own code, and in collating."""
    fetched = sum(one.fetches.total for one in fetching)
    collated = sum(one.collates.total for one in fetching)
    return fetched, max(fetched - collated, 0.0), collated


def _seen(loader: Loader, fetching: list[Fetching], space: Room, parts: Spread | None) -> Iterator[str]:
    yield (
        f"per step: {duration(loader.waits.mean)} waiting for data, {duration(loader.bodies.mean)} training "
        f"({many(loader.waits.count, 'step')})"
    )
    found = stripes(loader)
    if found is not None:
        yield (
            f"the workers work in step: one batch in {found.every} takes {duration(found.long)} to arrive, the "
            f"others {duration(found.between)}"
        )
    if not is_of_nodes(loader) and _has_no_room(loader, space, parts):
        yield space.words
    fetched, own, collated = _parts(fetching)
    count = sum(one.fetches.count for one in fetching)
    if not fetched or not count:
        return
    apart = f": {percent(own / fetched)} in the dataset's own code, {percent(collated / fetched)} collating"
    timed = any(one.collates.count for one in fetching)  # not where the dataset takes a batch as a whole
    yield f"loading a batch takes {duration(fetched / count)}{apart if timed else ''}"
    if parts is not None:
        yield f"{percent(parts.computing)} of that is CPU time{off_core(parts)}"
    if loader.num_workers:
        workers = "the only worker is" if loader.num_workers == 1 else f"the {loader.num_workers} workers are"
        yield f"{workers} busy {percent(_busy(fetching))} of the time"


def _ways(loader: Loader, fetching: list[Fetching], space: Room, parts: Spread | None) -> list[Remedy]:
    """The fix, and other ways out."""
    if is_of_nodes(loader):
        return ways_of_nodes(loader, space.cpus)
    if loader.num_workers and _busy(fetching) < IDLE:
        return [SENDING if handing(fetching) > SHARE else ELSEWHERE]
    fetched, own, collated = _parts(fetching)
    count = sum(one.fetches.count for one in fetching)
    per_batch = fetched / count if count else 0.0
    place = short(loader.reads_at) if is_users(loader.reads_at) else "the dataset"
    return advice(
        loader,
        space,
        parts,
        workers=loader.num_workers,
        needed=ceil(per_batch / max(loader.bodies.mean, 1e-4)) + 1 if per_batch else loader.num_workers + 1,
        reason=f"loading a batch takes {duration(per_batch)}, training on it {duration(loader.bodies.mean)}",
        slow="collating" if collated > own else place,
    )
