r"""A forked worker uses CUDA, which its parent process has already initialised, and crashes.

## It means
A forked process gets a copy of its parent's memory, but not of the driver's state behind it: CUDA cannot be used in it
once the parent has used it. Usual ways to get there: `.cuda()` or `.to(device)` in `__getitem__` or `collate_fn`, a
dataset that holds GPU tensors, a model in a transform, a `worker_init_fn` that seeds CUDA.

## Fix
Return CPU tensors from the dataset, and move each batch in the training loop. With pinned memory that costs little.
```python
# before
def __getitem__(self, index):
    return self.images[index].to("cuda")


# after
def __getitem__(self, index):
    return self.images[index]


loader = DataLoader(dataset, num_workers=4, pin_memory=True)
for batch in loader:
    batch = batch.to("cuda", non_blocking=True)
```
If samples have to be computed on the GPU, start the workers by spawn. Each worker then takes some hundred MiB of GPU
memory. Return CPU tensors all the same: torch advises against CUDA tensors from workers. The dataset must be picklable,
and the script needs an `if __name__ == "__main__":` guard.
```python
loader = DataLoader(dataset, num_workers=4, multiprocessing_context="spawn")
```

## Check it yourself
The traceback names the line under "Original Traceback". Look for other uses of the GPU in the dataset and collate code:
```sh
grep -rnE '\.cuda\(|\.to\(|device=' dataset.py
```
With `num_workers=0` the same code works:
```python
next(iter(DataLoader(dataset, num_workers=0)))
```

## Not this, if
- the worker hangs in a CPU operation of torch instead of raising: [fork-after-openmp](fork-after-openmp.md)
- the worker hangs at a lock: [fork-inherited-lock](fork-inherited-lock.md)
- after a change to spawn the dataset cannot be pickled: [unpicklable-dataset](unpicklable-dataset.md)
- after a change to spawn the script runs again in every worker: [missing-main-guard](missing-main-guard.md)

## How sure
Judged from torch's own exception, which is raised for nothing else, from the user's line under which CUDA was asked for
in the worker, and from how the worker was started. Certain: the text is torch's and has one meaning. Not tried on a
GPU: torch's own check raised it in the tests, with a simulated answer of the driver.

## Seen in
- https://github.com/pytorch/pytorch/issues/77159: datasets that move each sample to the GPU; the cure was to leave that
  to the training loop.
- https://github.com/pytorch/pytorch/issues/40403: the same error from a DataLoader with workers.
- https://github.com/traveller59/spconv/issues/408: a point-to-voxel operation on the GPU inside the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.failures import Raised, fatal, raised_at
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.text import said, who
from ..rule import rule

TEXTS = (
    "Cannot re-initialize CUDA in forked subprocess",
    "Cannot re-initialize XPU in forked subprocess",
    "To use CUDA with multiprocessing, you must use the 'spawn' start method",
)
TEXT = re.compile(r"Cannot re-initialize (\w+) in forked subprocess")
CARRIED = re.compile(r"in DataLoader worker process (\d+)")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if TEXT.search(one.failure.message)][:1]:
        place = _place(one.failure)
        device, how = _device(one.failure), "forked worker" if _of_worker(one) else "forked process"
        yield case.finding(
            one.process,
            cause=f"{device} was used in a {how}, and {device} does not survive fork.",
            seen=list(_seen(one, place)),
            remedy=_remedy(one),
            alternatives=_spawned(one),
            saw=_words(one.failure),
            onset_s=one.failure.at,
            where=place,
            subject=Subject("loader", one.loader.name) if one.loader is not None else None,
        )


def _device(failure: Failure) -> str:
    match = TEXT.search(failure.message)
    return match[1] if match is not None else "CUDA"


def _carried(failure: Failure) -> re.Match[str] | None:
    """A worker's exception as its main process raises it again: the worker's own was not recorded."""
    return CARRIED.search(failure.message)


def _whom(one: Raised) -> str:
    match = _carried(one.failure)
    if match is not None and one.process is one.main:
        return f"DataLoader worker {match[1]} of {who(one.main)}"
    return one.by


def _of_worker(one: Raised) -> bool:
    return one.process.role == "worker" or _carried(one.failure) is not None


def _words(failure: Failure) -> str:
    match = TEXT.search(failure.message)
    return f"RuntimeError: {match[0]}" if _carried(failure) and match is not None else said(failure, 160)


def _place(failure: Failure) -> Place | None:
    place = raised_at(failure)
    return place if is_users(place) else None


def _seen(one: Raised, place: Place | None) -> Iterator[str]:
    inside = f", in {place.function}" if place is not None else ""
    during = ""
    if one.failure.collating:
        during = ", while the batch was collated"
    elif one.failure.index is not None:
        during = f", while sample {one.failure.index} was loaded"
    yield f"raised in {_whom(one)}{inside}{during}"
    if one.loader is not None:
        how = f", workers started by {one.loader.context}" if one.loader.context else ""
        yield f"loader: {one.loader.name}{how}"


def _remedy(one: Raised) -> Remedy:
    pinned = one.loader is not None and one.loader.pin_memory
    return Remedy(
        "Return CPU tensors from the dataset and collate_fn, and move each batch in the training loop",
        code=[
            f"batch = batch.to(device, non_blocking=True){'' if pinned else '  # and DataLoader(..., pin_memory=True)'}"
        ],
    )


def _spawned(one: Raised) -> list[Remedy]:
    if not _of_worker(one):
        return []
    return [
        Remedy(
            "If workers must compute on the GPU, start them by spawn; each takes GPU memory, and the dataset must be "
            "picklable",
            code=['DataLoader(..., multiprocessing_context="spawn")'],
        )
    ]
