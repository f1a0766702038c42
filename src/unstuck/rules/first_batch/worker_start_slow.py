"""Starting the workers takes long, and the first batch waits for it.

## It means

A spawned worker is a new Python: it imports torch, runs the top level of the main script again, and unpickles the
dataset. On a few CPU cores many of them do so at once and slow each other down. A forked worker imports nothing, but a
large main process takes time to fork. And `worker_init_fn` runs in every worker before its first sample: what it reads
or builds is read and built that many times.

## Fix

Build what all workers need once, in the main process, before the workers are forked; or load it from a local file:

```python
def read_names(worker):  # before: worker_init_fn parses a large file in every worker
    torch.utils.data.get_worker_info().dataset.names = parse("names.csv")
```
```python
names = numpy.load("names.npy", mmap_mode="r")  # after: made once, mapped by all
```

Or let the workers start while the model is built. With `persistent_workers=True` the same workers serve all epochs:

```python
loader = DataLoader(dataset, num_workers=4, persistent_workers=True)
batches = iter(loader)  # the workers start here
model = build_model()
for batch in batches:
    ...
```

With spawned workers, keep the top level of the script small:

```python
if __name__ == "__main__":
    main()  # imports and work that only the training needs belong in here
```

Fork starts faster, `multiprocessing_context="fork"`, but only if no other thread runs and CUDA is not in use yet: a
forked worker inherits locks, and cannot use CUDA.

## Check it yourself

```python
import time

began = time.perf_counter()
batches = iter(loader)
print(f"processes: {time.perf_counter() - began:.1f} s")
next(batches)
print(f"first batch: {time.perf_counter() - began:.1f} s")
```

Try it again with `worker_init_fn=None`, then with `num_workers=1`. What a new Python imports, and how long it takes:

```sh
python -X importtime -c "import torch" 2>&1 | sort -t'|' -k2 -n | tail
```

## Not this, if

- it happens in every epoch: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md)
- a large dataset is pickled for every worker: [spawn-pickle-large-dataset](spawn-pickle-large-dataset.md)
- the sampler reads the dataset first: [sampler-reads-data](sampler-reads-data.md)
- workers are ready soon, and the first batch takes long: [first-batch-slow](first-batch-slow.md)

## How sure

It is judged, for the first epoch of each loader with workers, from how long it took until every worker was ready for
its first sample, and what that went into, as the workers themselves recorded it: making the processes, imports,
unpickling what they are sent, and `worker_init_fn`. It is certain of the seconds. It speaks when the start took five
seconds and a fifth of the run (fifteen, of a run that goes on). Of spawned workers, three seconds of it have to be
something else than importing torch, for which they are allowed three times what the main process took. Workers that are
started again for every epoch belong to worker-respawn-epoch-gap, and a large dataset that is sent to them to
spawn-pickle-large-dataset. Time in which other programs had the CPU cores is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_run, fair_worker_start
from ...analysis.loading import IMPORTING, MAKING, PREPARING, UNPACKING, WorkerStart, lasted, worker_start
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent
from ..rule import Level, rule

LONG = 5.0  # seconds: importing torch alone takes a spawned worker two or three
LIVE = 15.0  # seconds, of a run that goes on: the longer it will run, the less a start matters
SHARE = 0.2  # of the run, from its first epoch on
BEYOND = 3.0  # seconds more than every spawned worker needs
IMPORTS = 2.0  # seconds to import torch, where it is not known how long the main process took
AT_ONCE = 3  # times as long, for workers that import at once on few CPU cores
SMALL = 0.05  # seconds: shorter parts are not shown


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            found = worker_start(case, main, loader) if loader.num_workers else None
            if found is None:
                continue
            ran = max(lasted(main), found.seconds)
            fair = fair_worker_start(case, main, loader, found)
            if fair.seconds < (LIVE if main.alive else LONG):
                continue
            if fair.seconds < SHARE * max(fair_run(case, main, loader, ran), fair.seconds):
                continue
            unusual = _unusual(main, loader, fair)
            if sum(unusual.values()) < BEYOND:
                continue
            most = max(unusual, key=lambda name: unusual[name])
            remedy, *alternatives = _options(loader, most)
            yield case.finding(
                main,
                cause=f"The first batch waited {duration(found.seconds)} for {_workers(loader)} to start: "
                f"{_why(loader, found, most)}.",
                seen=list(_seen(loader, found, ran)),
                remedy=remedy,
                alternatives=alternatives,
                onset_s=loader.began,
                where=loader.created,
                subject=Subject("loader", loader.name),
            )


def _unusual(main: Process, loader: Loader, found: WorkerStart) -> dict[str, float]:
    """The parts without what importing torch costs any new Python on this machine, by the main process's own import."""
    if loader.context == "fork":
        return found.parts
    began = main.opened if main.started is None else main.started
    alone = main.imported - began if main.imported is not None else IMPORTS
    return {**found.parts, IMPORTING: max(found.parts[IMPORTING] - AT_ONCE * alone, 0.0)}


def _workers(loader: Loader) -> str:
    return "its only worker" if loader.num_workers == 1 else f"{loader.num_workers} workers"


def _why(loader: Loader, found: WorkerStart, most: str) -> str:
    name = (loader.worker_init_fn or "").rpartition(".")[2]
    init = f"worker_init_fn `{name}`" if name else "worker_init_fn"
    return {
        PREPARING: f"{init} is slow" + (" and still running" if found.going_on else ""),
        IMPORTING: f"each new Python ({loader.context}) imports everything again",
        UNPACKING: "each reruns the script and unpickles the dataset",
        MAKING: "creating the processes is slow",
    }[most]


def _seen(loader: Loader, found: WorkerStart, ran: float) -> Iterator[str]:
    parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds in found.parts.items() if seconds >= SMALL)
    yield f"the start is {percent(found.seconds / ran)} of the run; it went into: {parts}"
    how = f" by {loader.context}" if loader.context else ""
    last = max(worker.opened for worker in found.workers) - (loader.began or 0.0)
    yield f"{many(len(found.workers), 'worker')} started{how}, the last one ran after {duration(max(last, 0.0))}"
    if loader.first:
        yield f"wait for the first batch: {duration(loader.first[0])}; for later ones: {duration(loader.waits.mean)}"
    yield f"loader: {loader.name}"


def _options(loader: Loader, most: str) -> Iterator[Remedy]:
    if most == PREPARING:
        name = (loader.worker_init_fn or "worker_init_fn").rpartition(".")[2]
        yield Remedy(f"Make {name} cheaper: prepare its data once, save it to a local file, and only load that")
        if loader.context == "fork":
            yield Remedy(f"Do the work of {name} once in the main process: forked workers inherit it")
        yield EARLY
    elif most == MAKING:
        yield Remedy(f"Start fewer than {many(loader.num_workers, 'worker')}, and keep them for all epochs", code=KEPT)
        yield Remedy("Start the workers before the main process grows", code=EARLY.code)
    else:
        if most == UNPACKING:
            yield Remedy(
                "Move what the script does at its top level under the main guard, and keep the dataset small",
                code=['if __name__ == "__main__":', "    main()"],
            )
        else:
            yield Remedy("Import less at the top of the script and of the dataset's module, or start fewer workers")
            yield EARLY
        if loader.context != "fork":
            yield FORK


KEPT = ["persistent_workers=True"]
EARLY = Remedy("Start the workers while the model is built: make the iterator first", code=["batches = iter(loader)"])
FORK = Remedy(
    "Fork the workers, if no other thread runs and CUDA is not in use by then",
    code=['multiprocessing_context="fork"'],
)
