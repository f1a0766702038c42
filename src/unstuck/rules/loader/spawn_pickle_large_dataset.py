"""Starting workers is slow, because the whole dataset is pickled and sent to each of them.

## It means
A worker started by `spawn` or `forkserver` gets the dataset object through a pipe: the main process pickles all of it
for each worker, one after another, and each worker rebuilds it in memory of its own. A pipe holds 64 KiB, so with a
large dataset the main process also waits until the worker has imported everything and begins to read. Lists, dicts,
strings and numpy arrays are sent in full.

## Fix
Keep the data out of the object: store a path, and open or map the file in the worker, at the first sample.
```python
# before
class Rows(Dataset):
    def __init__(self, path):
        self.rows = np.load(path)


# after
class Rows(Dataset):
    def __init__(self, path):
        self.path, self.rows = path, None

    def __getitem__(self, index):
        if self.rows is None:
            self.rows = np.load(self.path, mmap_mode="r")
        return torch.from_numpy(self.rows[index].copy())
```
With `persistent_workers=True`, and the loader made once, the data are sent only once. On Linux
`multiprocessing_context="fork"` sends nothing; it is safe only while no other thread runs and CUDA is not in use.
Torch tensors are no way out in a container: they are sent through `/dev/shm`, which is small there.

## Check it yourself
How much each worker is sent, and how long it takes to pickle:
```python
import pickle, time

start = time.perf_counter()
print(len(pickle.dumps(dataset)) >> 20, "MiB", time.perf_counter() - start, "s")
```

## Not this, if
- the workers are started again in every epoch: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md)
- the time goes into `worker_init_fn` or imports: [worker-start-slow](worker-start-slow.md)
- pickling fails: [unpicklable-dataset](unpicklable-dataset.md)

## How sure
Judged from how the loader's workers are started (`spawn` or `forkserver`), how many bytes the main process wrote while
it started them, how long making the iterator took, and which share of the run that was. Certain of bytes and seconds.
It speaks when a worker was sent 16 MiB or more, and starting workers took two seconds and a tenth of the run.

## Seen in
- https://github.com/pytorch/pytorch/issues/139792: workers of a dataset of moderate size start one after another.
- https://github.com/pytorch/pytorch/issues/131931: starting a worker blocks until it has imported its modules.
- https://github.com/pytorch/pytorch/pull/87802: 30 minutes to start 32 workers with a dataset of 2 GB.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent, size
from ..rule import rule

METHODS = ("spawn", "forkserver")
LARGE = 16 << 20  # bytes per worker: code, settings and an index of files are less
LONG = 2.0  # seconds: a shorter start does not matter
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
                cause=f"Starting workers took {duration(took)}: {loader.context} sends the "
                f"{size(loader.sent / started)} dataset to each, one after another.",
                seen=[f"that is {percent(took / ran)} of the run", *_seen(case, main, loader, started)],
                remedy=_remedy(loader),
                alternatives=_others(loader),
                where=loader.created,
                subject=Subject("loader", loader.name),
            )


def _seen(case: Case, main: Process, loader: Loader, started: int) -> Iterator[str]:
    yield (
        f"{loader.name}: {size(loader.sent)} sent to {many(started, 'worker')}, in "
        f"{many(loader.starts.count, 'start')} of {duration(loader.starts.mean)}"
    )
    yield "a pipe holds 64 KiB: for the rest, the main process waits until the worker has imported its modules"
    for name, count in sorted(loader.containers.items(), key=lambda one: -one[1])[:2]:
        yield f"dataset.{name} has {count:,} items"
    host = case.host_of(main)
    pids = set(loader.pids)
    held = [one.anonymous for sample in host.samples for one in sample.processes if one.pid in pids] if host else []
    if held:
        yield f"a worker uses up to {size(max(held))} of memory, without mapped files"


def _remedy(loader: Loader) -> Remedy:
    largest = max(loader.containers, key=lambda name: loader.containers[name], default="")
    named = largest.isidentifier()
    return Remedy(
        f"Keep {f'`{largest}`' if named else 'the data'} out of the dataset object: store a path, and open or map the "
        "file at the first sample",
        code=[
            f"if self.{largest if named else 'data'} is None:  # in __getitem__, so in the worker",
            f'    self.{largest if named else "data"} = np.load(self.path, mmap_mode="r")',
        ],
    )


def _others(loader: Loader) -> list[Remedy]:
    kept = Remedy("Start the workers only once", code=[settings(loader, persistent_workers=True)])
    forked = Remedy(
        "Fork the workers, which sends nothing, if no other thread runs by then and CUDA is not in use (Linux)",
        code=['DataLoader(..., multiprocessing_context="fork")'],
    )
    return [*([] if loader.persistent_workers or loader.starts.count < 2 else [kept]), forked]
