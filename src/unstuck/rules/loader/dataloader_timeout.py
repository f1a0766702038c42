"""The loader's own timeout expired: one batch took longer than `timeout=` allows.

## It means
`DataLoader(timeout=N)` raises when no batch has arrived for N seconds. One slow sample is enough, because batches are
delivered in order. torch's message does not say which worker or sample it was, nor whether the worker was blocked or
only slow.

## Fix
Load the named sample alone, without workers, and time it (below). If it is only slow, raise the limit above the slowest
healthy sample:
```python
loader = DataLoader(dataset, num_workers=4, timeout=120)
```
If it blocks, give its reader a timeout of its own, so it raises where the cause is:
```python
# before
data = requests.get(url).content
# after
data = requests.get(url, timeout=30).content
```

## Check it yourself
```python
import time

start = time.perf_counter()
dataset[222]
print(time.perf_counter() - start)
```
While a run hangs, before the timeout expires, see where its workers are:
```sh
for pid in $(pgrep -P "$MAIN_PID"); do py-spy dump --pid "$pid"; done
```

## Not this, if
- a batch was dropped because it cannot be pickled: [batch-not-picklable](batch-not-picklable.md)
- the worker is blocked in a read, and there is no timeout: [worker-blocked-io](worker-blocked-io.md)
- the worker computes one sample forever: [worker-infinite-loop](worker-infinite-loop.md)
- slow samples only slow the training down: [in-order-head-of-line](in-order-head-of-line.md)

## How sure
Judged from torch's message, from the sample that every worker was in at that moment and for how long, and from what
samples take otherwise. Certain that the timeout ended the run. The sample is the one that its worker had been loading
for longest.

## Seen in
- https://github.com/pytorch/pytorch/issues/33296: a training stopped by the loader's timeout; reports name a data lake
  and an augmentation that never ended.
- https://github.com/pytorch/pytorch/issues/96629: a request that a worker tell where it was when the timeout expired.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, FetchState, Loader
from ...evidence.process import Failure, Process
from ...wording.settings import settings
from ...wording.text import duration, many, said, short, who
from ..rule import Level, rule

TEXTS = ("DataLoader timed out after",)  # torch's own, in every version since 0.3
INSIDE = (FetchState.FETCHING, FetchState.LOADING, FetchState.COLLATING)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    for process in case.mains:
        failure = next((one for one in process.failures if one.message.startswith(TEXTS)), None)
        loader = process.newest_loader
        if failure is None or loader is None:
            continue
        busy = [
            (worker, one) for worker in case.workers_of(process, loader) for one in worker.fetching if one.now in INSIDE
        ]
        straggler = min(busy, key=lambda one: one[1].now_since, default=None)
        yield _finding(case, process, failure, straggler, loader)
        return


def _finding(
    case: Case, process: Process, failure: Failure, straggler: tuple[Process, Fetching] | None, loader: Loader
) -> Finding:
    sample = straggler[1].index if straggler is not None else None
    where = user_line(failure)
    reads = loader.reads_at if is_users(loader.reads_at) and loader.reads_at != where else None
    read_at = [f"samples are loaded at {short(reads)} ({reads.function})"] if reads is not None else []
    fix, *others = _ways(sample, loader)
    return case.finding(
        process,
        cause=f"No batch within timeout={loader.timeout:g} s: {_busy(failure, straggler)}.",
        seen=[*_seen(straggler), *read_at, f"loader: {loader.name}, num_workers={loader.num_workers}"],
        remedy=fix,
        alternatives=others,
        saw=said(failure),
        worker=straggler[0].worker if straggler else None,
        pid=straggler[0].pid if straggler else process.pid,
        onset_s=failure.at,
        where=where,
        subject=Subject("sample", str(sample)) if sample is not None else None,
    )


def _busy(failure: Failure, straggler: tuple[Process, Fetching] | None) -> str:
    if straggler is None:
        return "every worker was idle or gone"
    worker, fetch = straggler
    name = "a worker" if worker.worker is None else f"worker {worker.worker}"
    what = f" loading sample {fetch.index}" if fetch.index is not None else " busy"
    usual = f" (usually at most {duration(fetch.sample_times.longest)})" if fetch.sample_times.count else ""
    return f"{name} had been{what} for {duration(max(failure.at - fetch.now_since, 0.0))}{usual}"


def _seen(straggler: tuple[Process, Fetching] | None) -> Iterator[str]:
    if straggler is None:
        return
    worker, fetch = straggler
    usual = fetch.sample_times
    took = f": its {many(usual.count, 'earlier sample')} took {duration(usual.p50)} (median)" if usual.count else ""
    yield f"{who(worker)}{took}"


def _ways(sample: int | str | None, loader: Loader) -> list[Remedy]:
    """The fix, and other ways out."""
    if isinstance(sample, int) and not loader.iterable:
        code = ["start = time.perf_counter()", f"dataset[{sample}]", "print(time.perf_counter() - start)"]
        first = Remedy("Time that sample alone, without workers", code=code)
    else:
        alone = settings(loader, num_workers=0)
        first = Remedy(f"Load without workers ({alone}, timeout=0), and see where it blocks or how long it takes.")
    return [
        first,
        Remedy("If it blocks, give its reader a timeout of its own."),
        Remedy("If it is only slow, raise DataLoader(timeout=...) above the slowest healthy sample."),
    ]
