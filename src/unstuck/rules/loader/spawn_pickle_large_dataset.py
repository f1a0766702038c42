"""Workers are not forked but sent the whole dataset, and it is large.

## What it looks at
How the loader's workers are started (`spawn` or `forkserver`), how many bytes the main process wrote while it started
them, how long making the iterator took, and what share of the run that was.

## Why it happens
A worker that is not forked gets the dataset object through a pipe: the main process pickles all of it for each worker,
one after another, and each worker builds it up again in memory of its own. A pipe holds 64 KiB, so with a large dataset
the main process also waits until the worker has imported everything and begins to read. Tensors are not sent (they go
through shared memory); lists, dicts, strings and numpy arrays are.

## What to do
Keep the data out of the object: hold a path, and open the file in the worker at the first sample; or hold it as torch
tensors, or as an array that is mapped from a file. `persistent_workers=True` makes it happen once. On Linux, `fork`
sends nothing at all.

## How sure it is
Certain of bytes and seconds. It speaks when a worker was sent 16 MiB or more, and starting workers took two seconds and
a tenth of the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent, size
from ..rule import rule

METHODS = ("spawn", "forkserver")
LARGE = 16 << 20  # bytes for a worker: code, settings and an index of files are less
LONG = 2.0  # seconds: a start that nobody minds
SHARE = 0.1  # of the run


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    outranks=("worker-respawn-epoch-gap",),
    applies_to_trials=True,
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            started = len(set(loader.pids))
            if loader.context not in METHODS or not started or loader.sent < LARGE * started:
                continue
            took, ran = loader.starts.total, lasted(main)
            if took < LONG or took < SHARE * ran:
                continue
            yield case.finding(
                main,
                cause=f"Starting workers took {duration(took)}, {percent(took / ran)} of the run: "
                f"{loader.name} starts them by {loader.context}, and each is sent the whole dataset, "
                f"{size(loader.sent / started)}.",
                seen=list(_seen(case, main, loader, started)),
                remedy=_remedy(loader),
                where=loader.created,
                subject=Subject("loader", loader.name),
            )


def _seen(case: Case, main: Process, loader: Loader, started: int) -> Iterator[str]:
    yield (
        f"{size(loader.sent)} were written to {many(started, 'worker')}, in {many(loader.starts.count, 'start')} of "
        f"{duration(loader.starts.mean)}"
    )
    yield (
        "a pipe holds 64 KiB: the main process waits with all the rest until a worker has imported its modules, one "
        "worker after another"
    )
    for name, count in sorted(loader.containers.items(), key=lambda one: -one[1])[:2]:
        yield f"{name} of the dataset has {count:,} items"
    host = case.host_of(main)
    pids = set(loader.pids)
    held = [one.anonymous for sample in host.samples for one in sample.processes if one.pid in pids] if host else []
    if held:
        yield f"a worker holds up to {size(max(held))} of memory, mapped files not counted"


def _remedy(loader: Loader) -> Remedy:
    largest = max(loader.containers, key=lambda name: loader.containers[name], default="")
    what = f"`{largest}`" if largest else "the data"
    once = "" if loader.persistent_workers or loader.starts.count < 2 else " persistent_workers=True pays for it once."
    return Remedy(
        f"Keep {what} out of the dataset object: hold a path, and open or map the file in `__getitem__` the first "
        f"time; or hold it as torch tensors, which are shared rather than sent.{once} On Linux, "
        f"multiprocessing_context='fork' sends nothing."
    )
