"""A DataLoader worker tried to start processes of its own, which workers are not allowed to do.

## It means
DataLoader workers are daemonic: they are ended together with the main process. multiprocessing does not let a daemonic
process start others, because these would be left behind. A `multiprocessing.Pool`, a ProcessPoolExecutor, a second
DataLoader with workers or a `map(num_proc=...)` inside the dataset runs into that.

## Fix
Use threads inside the worker, or nothing: the workers themselves are the parallel processes.
```python
# before
with multiprocessing.Pool(4) as pool:
    tiles = pool.map(decode, paths)

# after
with multiprocessing.pool.ThreadPool(4) as pool:
    tiles = pool.map(decode, paths)
```
Or do that part once, before the DataLoader is created, and store the result. Or give this loader no workers, and let
the inner pool do the work:
```python
loader = DataLoader(dataset, num_workers=0)
```
Starting a program with `subprocess` is allowed.

## Check it yourself
The traceback of the worker names the line under "Original Traceback". With `num_workers=0` the same code works:
```python
next(iter(DataLoader(dataset, num_workers=0)))
```

## Not this, if
- the workers start the whole script again: [missing-main-guard](missing-main-guard.md)
- the dataset cannot be sent to the workers: [unpicklable-dataset](unpicklable-dataset.md)
- `map(num_proc=...)` in the main process hangs: [hf-map-num-proc-hang](hf-map-num-proc-hang.md)
- any other exception in a worker: [worker-python-exception](worker-python-exception.md)

## How sure
Judged from the exception that ended the training: Python's own words that daemonic processes are not allowed to have
children, and the line in the worker that asked for them. Certain: the words are multiprocessing's own and mean nothing
else.

## Seen in
- https://github.com/pytorch/pytorch/issues/15950: a DataLoader with workers inside a process that is a worker itself.
- https://github.com/ThilinaRajapakse/simpletransformers/issues/1247: a multiprocessing.Pool for features, started in a
  daemonic process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Failure, Process
from ...wording.settings import settings
from ...wording.text import who
from ..rule import rule

TEXTS = ("daemonic processes are not allowed to have children",)


class Asked(NamedTuple):
    """What asked for a process, and what does the same without one."""

    what: str
    instead: str
    code: str = ""


# By the file of a frame below the user's line.
ASKED = {
    "/concurrent/futures/process.py": Asked(
        "a ProcessPoolExecutor",
        "Use threads inside the worker",
        "with concurrent.futures.ThreadPoolExecutor(4) as pool:",
    ),
    "/multiprocessing/pool.py": Asked(
        "a multiprocessing.Pool", "Use threads inside the worker", "with multiprocessing.pool.ThreadPool(4) as pool:"
    ),
    "/multiprocessing/managers.py": Asked(
        "a multiprocessing.Manager", "Use an ordinary object with a threading.Lock instead."
    ),
    "dataloader.py": Asked(
        "a DataLoader with workers of its own", "Give the inner loader no workers", "DataLoader(..., num_workers=0)"
    ),
}
FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')  # of a traceback
ANY = Asked("a process", "Use a thread instead.")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        if main.failure is None or not _says(main.failure):
            continue
        process, failure = _first(case, main)
        owner = case.owner_of(process.node, process.pid)
        loader = owner.loader if owner is not None else main.newest_loader
        place, asked = _asked(failure)
        fix, *others = _ways(asked, loader)
        yield case.finding(
            process,
            cause=f"A DataLoader worker tried to start {asked.what}; workers cannot have child processes.",
            seen=list(_seen(process, failure, place, loader)),
            remedy=fix,
            alternatives=others,
            saw=f"AssertionError: {TEXTS[0]}",
            onset_s=failure.at,
            where=place,
            subject=None if failure.index is None else Subject("sample", str(failure.index)),
        )
        return


def _says(failure: Failure) -> bool:
    return TEXTS[0] in failure.message or any(TEXTS[0] in message for _, message in failure.causes)


def _first(case: Case, main: Process) -> tuple[Process, Failure]:
    """The worker that met it first; the main process has only its words, where it came before any sample."""
    workers = [worker for loader in main.loaders for worker in case.workers_of(main, loader)]
    met = [(one, failure) for one in workers for failure in one.failures if _says(failure)]
    own = [(main, main.failure)] if main.failure is not None else []
    return min(met, key=lambda one: one[1].at) if met else own[0]


def _asked(failure: Failure) -> tuple[Place | None, Asked]:
    """The user's line that asked for a process, and by what."""
    frames = _frames(failure)
    users = [at for at, frame in enumerate(frames) if is_users(frame)]
    below = " ".join(frame.file for frame in frames[users[-1] + 1 :]) if users else ""
    asked = next((asked for file, asked in ASKED.items() if file in below), ANY)
    return frames[users[-1]] if users else None, asked


def _frames(failure: Failure) -> list[Place]:
    """Where the main process raises it again, the worker's frames are only in the text."""
    told = [Place(file, int(number), function) for file, number, function in FRAME.findall(failure.message)]
    return told or failure.frames


def _seen(process: Process, failure: Failure, place: Place | None, loader: Loader | None) -> Iterator[str]:
    inside = f", in {place.function}" if place is not None else ""
    sample = f", at sample {failure.index}" if failure.index is not None else ""
    worker = f"DataLoader {who(process)}" if process.role == "worker" else "a DataLoader worker"
    yield f"raised in {worker}{inside}{sample}"
    if loader is not None:
        yield f"loader: {loader.name}, num_workers={loader.num_workers}"


def _ways(asked: Asked, loader: Loader | None) -> list[Remedy]:
    """The fix, and other ways out."""
    ways = [
        Remedy(asked.instead, code=[asked.code] if asked.code else []),
        Remedy("Do that work once, before the DataLoader is created."),
    ]
    if loader is not None and asked.what != ASKED["dataloader.py"].what:
        zero = settings(loader, num_workers=0)
        ways.append(Remedy(f"Set {zero} for this loader: the main process may have child processes."))
    return ways
