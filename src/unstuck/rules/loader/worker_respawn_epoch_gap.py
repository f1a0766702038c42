"""All workers are started again for every epoch, and starting them takes long.

## It means
Without `persistent_workers=True` a DataLoader ends its workers at the end of each epoch and starts new ones at the
beginning of the next. Whatever a worker does first is done again: starting the process, `worker_init_fn`, imports,
opening files, reading an index, filling its queue. The same happens when the loader itself is made again every epoch.

## Fix
Make the loader once, before the loop over epochs, with `persistent_workers=True`.
```python
# before
for epoch in range(epochs):
    for batch in DataLoader(dataset, batch_size=8, num_workers=4):
        ...

# after
loader = DataLoader(dataset, batch_size=8, num_workers=4, persistent_workers=True)
for epoch in range(epochs):
    for batch in loader:
        ...
```
The workers then keep their copy of the dataset, and their memory stays in use between epochs. What is changed in the
main process between epochs (`dataset.set_epoch(n)`) no longer reaches them: let it go through the sampler, or through
shared memory.
```python
self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # in __init__; self.epoch.fill_(n) in set_epoch
```

## Check it yourself
New pids after every epoch:
```sh
watch -n 1 pgrep -P "$MAIN_PID"
```
Time the first batch of each epoch:
```python
for epoch in range(3):
    start = time.monotonic()
    next(iter(loader))
    print(epoch, time.monotonic() - start)
```

## Not this, if
- only the first epoch starts slowly: [worker-start-slow](worker-start-slow.md)
- each worker is sent a large dataset: [spawn-pickle-large-dataset](spawn-pickle-large-dataset.md)
- a stream fills its shuffle buffer again: [shuffle-buffer-large](shuffle-buffer-large.md)
- the time goes into ending the workers: [loader-shutdown-slow-join](loader-shutdown-slow-join.md)
- new workers come with every step: [next-iter-every-step](next-iter-every-step.md)

## How sure
Judged, for each loader that was iterated three times or more, from how long making its iterator and waiting for its
first batch took each time, whether the workers had new pids each time, and how long a batch takes to load once they
run. What workers that stay would save is counted: all epochs but the first, without the time that loading the first
batch takes anyway. Certain of the times and pids. Of an iterable dataset only what is not spent in its own code is
counted, because a stream that begins again fills its buffers again in any worker. It speaks from half a second per
epoch and 15 % of the run on, without the time in which the run was ready and other programs had the CPU cores.

## Seen in
- https://github.com/pytorch/pytorch/pull/35795: why `persistent_workers` exists: every epoch creates the workers again,
  with a new copy of the dataset.
- https://github.com/visionml/pytracking/issues/374: a pause of 4 minutes 20 between epochs of 6 minutes 40.
- https://github.com/boreshkinai/delta-interpolator/pull/3: about 10 seconds per epoch saved by persistent workers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_loading, fair_making, fair_run, fair_start
from ...analysis.loading import fetching, lasted
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...evidence.process import Process
from ...wording.settings import once, settings
from ...wording.text import duration, many, percent
from ..rule import rule

PASSES = 3  # the first costs that time anyway, and one more may be a coincidence
LONG = 0.5  # seconds per epoch: less is not noticed
SHARE = 0.15  # of the run: below that, another setting is not worth its memory
FORK = "fork"


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            if not _respawned(loader):
                continue
            loads = fetching(case, main, loader)
            each, ran = _saved(loader, loads), lasted(main)
            saved = each * (loader.starts.count - 1)
            if not _matters(case, main, loader, loads, ran):
                continue
            yield case.finding(
                main,
                cause=f"{percent(saved / ran)} of the run is restarting the {_workers(loader)} of {loader.name}: "
                f"{duration(each)} per epoch.",
                seen=list(_seen(loader, loads, saved, ran)),
                remedy=_remedy(loader),
                alternatives=_others(loader),
                where=loader.created,
                subject=Subject("loader", loader.name),
            )


def _respawned(loader: Loader) -> bool:
    """Other processes each time; of very many passes only the newest workers are known."""
    passes, started = loader.starts.count, len(set(loader.pids))
    anew = started >= min(passes * loader.num_workers, 128)
    return loader.num_workers > 0 and passes >= PASSES and loader.batches > 1.2 * passes and anew


def _matters(case: Case, main: Process, loader: Loader, loads: list[Fetching], ran: float) -> bool:
    """Without the time in which other programs had the CPU cores: starting workers again does not cost that."""
    starts, firsts = _started(loader)
    starts, firsts = fair_making(case, main, loader, starts), fair_start(case, main, loader, firsts)
    each = starts + firsts - fair_loading(case, main, loader, _loading(loader, loads))
    return each >= LONG and each * (loader.starts.count - 1) >= SHARE * fair_run(case, main, loader, ran)


def _saved(loader: Loader, loads: list[Fetching]) -> float:
    """Seconds per epoch."""
    return sum(_started(loader)) - _loading(loader, loads)


def _started(loader: Loader) -> tuple[float, float]:
    """Seconds per epoch, of making its iterator and of its first batch.

    The longest is taken for the first epoch, which workers that stay need as well.
    """
    later = max(loader.starts.count - 1, 1)
    starts = (loader.starts.total - loader.starts.longest) / later
    return starts, (loader.first_waits.total - loader.first_waits.longest) / later


def _loading(loader: Loader, loads: list[Fetching]) -> float:
    """What the first batch of an epoch takes anyway, once the workers run."""
    if loader.iterable:
        return max((one.fetches.longest for one in loads), default=0.0)
    count = sum(one.fetches.count for one in loads)
    return sum(one.fetches.total for one in loads) / count if count else 0.0


def _workers(loader: Loader) -> str:
    return "only worker" if loader.num_workers == 1 else "workers"


def _seen(loader: Loader, loads: list[Fetching], saved: float, ran: float) -> Iterator[str]:
    passes = loader.starts.count
    yield (
        f"per epoch: {duration(loader.starts.mean)} starting workers, {duration(loader.first_waits.mean)} waiting for "
        f"the first batch (each later one: {duration(loader.waits.mean)})"
    )
    yield f"loading a batch takes {duration(_loading(loader, loads))} in a running worker"
    yield f"all epochs but the first: {duration(saved)} of {duration(ran)}"
    yield f"{many(passes, 'epoch')} had {many(len(set(loader.pids)), 'different worker')}"
    if loader.worker_init_fn:
        yield f"worker_init_fn {loader.worker_init_fn} runs in each of them"


def _remedy(loader: Loader) -> Remedy:
    way = once(loader)
    if loader.persistent_workers:
        return Remedy(f"{way[0].upper()}{way[1:]}: with persistent_workers=True, workers stay as long as their loader.")
    return Remedy(
        f"Keep the workers, and {way}; changes in the dataset between epochs (set_epoch) then no longer reach them",
        code=[settings(loader, persistent_workers=True)],
    )


def _others(loader: Loader) -> list[Remedy]:
    if not loader.worker_init_fn or loader.context != FORK:
        return []
    name = loader.worker_init_fn.rpartition(".")[2]
    return [Remedy(f"Do what {name} does once, before the loop over epochs: forked workers inherit the result.")]
