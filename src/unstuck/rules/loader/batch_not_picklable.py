"""A worker silently drops a batch that cannot be pickled, and the training loop waits for it forever.

## It means
A worker puts its batch into a queue, and a background thread of that queue pickles it. If pickling fails, the thread
prints a traceback, drops the batch and carries on. Neither the worker nor the main process is told. The loop waits
forever for that batch, while the workers are idle and look healthy. Lambdas, functions and classes defined inside a
function, generators, locks, open files, database handles, and tensors computed with gradients cannot be pickled. With
`num_workers=0` nothing is pickled, so the same code works.

## Fix
Return plain data from the dataset and from `collate_fn`: tensors, numbers, strings, lists and dicts of them, objects
of classes defined at the top of a module.
```python
# before: the lambda is part of the batch
def collate(rows):
    lengths = [len(row) for row in rows]
    tokens = pad_sequence(rows, batch_first=True)
    return {"tokens": tokens, "undo": lambda scores: unpad(scores, lengths)}


# after: send what it needs, call it in the training loop
def collate(rows):
    return {"tokens": pad_sequence(rows, batch_first=True), "lengths": [len(row) for row in rows]}


for batch in loader:
    scores = unpad(model(batch["tokens"]), batch["lengths"])
```
If the function has to travel with the batch, define it at the top of a module: `functools.partial(unpad,
lengths=lengths)` can be pickled, a lambda cannot.

A tensor that was computed with gradients:
```python
batch["embedding"] = batch["embedding"].detach()
```

## Check it yourself
Pickle one batch in the main process, as the worker does it. The exception names what is in the way:
```python
from multiprocessing.reduction import ForkingPickler
from torch.utils.data import DataLoader

batch = next(iter(DataLoader(dataset, batch_size=8, collate_fn=collate, num_workers=0)))
ForkingPickler.dumps(batch)
```
In the output of the hanging run, look for a traceback with `multiprocessing/queues.py` and `_feed` in it.

## Not this, if
- the workers never start, because the dataset cannot be pickled: [unpicklable-dataset](unpicklable-dataset.md)
- the traceback is about shared memory: [shm-exhausted](shm-exhausted.md)
- the traceback says "Too many open files": [fd-exhausted-tensors-kept](fd-exhausted-tensors-kept.md)
- a worker is still busy with a sample when the timeout expires: [dataloader-timeout](dataloader-timeout.md)
- a worker is blocked in a read: [worker-blocked-io](worker-blocked-io.md)

## How sure
Judged from the exception in the thread that sends a worker's batches, with the number of the batch and what in it is of
a kind that cannot be sent, and from the main process: whether it waits for a batch of the same epoch, for how long, or
how it ended there. Certain that the batch was dropped. It speaks only where the loop is waiting in the epoch that lost
the batch. A message that was lost in another queue of the program does not count, nor does a batch that the loop never
asked for because it was left early.

## Seen in
- https://github.com/pytorch/pytorch/issues/142884: the DataLoader hangs forever when an object fails to pickle in the
  queue's background thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.standstill import LONG
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, LoaderState
from ...evidence.process import Failure, Process
from ...wording.text import duration, many, said, who
from ..rule import Level, rule
from ._torchdata import is_of_nodes

TEXTS = (
    "Can't pickle local object",
    "Can't get local object",
    "Can't pickle <function <lambda>",
    "cannot pickle 'generator' object",
    "cannot pickle '_io.TextIOWrapper' object",
    "cannot pickle '_thread.lock' object",
    "Cowardly refusing to serialize non-leaf tensor which requires_grad",
)
TIMED_OUT = "DataLoader timed out after"  # torch's own words, where the loader has a timeout
# As inside/loading/pickling.py says what it is, and in fewer words.
LAMBDA, INSIDE_FUNCTION, TENSOR, CLASS = "a lambda", "defined inside a function", "a tensor that", "of the class"
BRIEFLY = {
    LAMBDA: LAMBDA,
    INSIDE_FUNCTION: INSIDE_FUNCTION,
    TENSOR: "computed with gradients",
    CLASS: "of a local class",
}
PLAIN = "tensors, numbers, strings, and lists and dicts of them"
PICKLE = [
    "from multiprocessing.reduction import ForkingPickler",
    "ForkingPickler.dumps(next(iter(DataLoader(dataset, num_workers=0))))",
]
RESOURCES = ("shared memory", "Too many open files", "No space left", "Cannot allocate memory", "mmap")


class Lost(NamedTuple):
    """The first batch of an epoch that could not be sent, and the loop that waits for it."""

    failure: Failure
    worker: Process
    main: Process
    loader: Loader
    batches: int  # that are known to be lost

    @property
    def ended(self) -> Failure | None:
        return self.main.failure


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.GENERAL,
    outranks=("dataloader-timeout", "silent-rank-data-stall", "straggler-rank", "worker-respawn-epoch-gap"),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        found = _lost(case, main)
        if found is not None:
            yield _finding(case, found)
            return


def _lost(case: Case, main: Process) -> Lost | None:
    failed: list[tuple[Failure, Process, Loader]] = []
    for loader in main.loaders:
        for worker in case.workers_of(main, loader):
            if _waits(case, main, loader, worker):
                failed += [(one, worker, loader) for one in worker.failures if _counts(main, loader, one)]
    if not failed:
        return None
    failure, worker, loader = min(failed, key=lambda one: (one[0].batch or 0, one[0].at))
    return Lost(failure, worker, main, loader, len(failed))


def _waits(case: Case, main: Process, loader: Loader, worker: Process) -> bool:
    """Whether the loop waits for a batch of this worker, for long or until the process ended."""
    if loader.now != LoaderState.WAITING or worker.pid not in loader.pids[-max(loader.num_workers, 1) :]:
        return False
    looked = case.looked_at or 0.0
    return case.stall is not None or not main.alive or looked - loader.now_since >= LONG


def _counts(main: Process, loader: Loader, one: Failure) -> bool:
    """Of the current epoch, and not yet delivered; not for lack of memory or descriptors."""
    number = one.batch if not is_of_nodes(loader) else one.index
    if one.how != "feeder" or number is None or any(word in one.message for word in RESOURCES):
        return False
    began = max((each.at for each in main.phases if each.loader == loader.number and not each.told), default=0.0)
    workers_first = loader.starts.longest + 1.0  # seconds: the first workers fetch while the last ones are started
    awaited = one.batch is None or one.batch >= loader.pass_batches or not loader.in_order
    return one.at >= began - workers_first and awaited


def _finding(case: Case, lost: Lost) -> Finding:
    failure, loader = lost.failure, lost.loader
    ended = lost.ended is not None and lost.ended.message.startswith(TIMED_OUT)
    fix, *others = _ways(failure, loader)
    return case.finding(
        lost.worker,
        cause=_cause(lost, timed_out=ended),
        seen=list(_seen(case, lost)),
        remedy=fix,
        alternatives=others,
        saw=said(failure),
        onset_s=failure.at,
        where=failure.culprit or loader.created,
        subject=Subject("batch" if failure.batch is not None else "sample", str(_number(failure))),
        symptom=(Symptom.CRASHED if ended else Symptom.STUCK).value,
    )


def _cause(lost: Lost, *, timed_out: bool) -> str:
    loop = f"rank {lost.main.rank}" if lost.main.rank is not None else "the loop"
    dropped = (
        f"{_noun(lost.failure)} {_number(lost.failure)} was dropped because {_what(lost.failure)} cannot be pickled"
    )
    if timed_out:
        return f"{dropped[:1].upper()}{dropped[1:]}; {loop} waited until its timeout."
    return f"Deadlock: {dropped}; {loop} waits for it forever."


def _what(failure: Failure) -> str:
    """`batch['undo'] (a lambda)`."""
    if not failure.unpicklable:
        return "something in it"
    name, kind = _parts(failure.unpicklable[0])
    return f"{name} ({next((words for start, words in BRIEFLY.items() if kind.startswith(start)), kind)})"


def _parts(told: str) -> tuple[str, str]:
    """Of `batch['undo'] (a lambda, padded.<locals>.<lambda>)`, the name and what it is."""
    name, _, kind = told.partition(" (")
    return name, kind.removesuffix(")")


def _number(failure: Failure) -> int | str | None:
    return failure.batch if failure.batch is not None else failure.index


def _noun(failure: Failure) -> str:
    """Workers of a DataLoader send batches, those of torchdata's nodes items."""
    return "batch" if failure.batch is not None else "item"


def _seen(case: Case, lost: Lost) -> Iterator[str]:
    failure, loader = lost.failure, lost.loader
    yield f"{who(lost.worker)} printed the error while sending the {_noun(failure)}, and carried on"
    end = case.looked_at or (lost.ended.at if lost.ended is not None else lost.main.last_sign)
    if case.stall is not None:
        end = max(end, case.stall.since + case.stall.seconds)
    had = many(loader.pass_batches, "batch") if loader.pass_batches else "no batch"
    yield f"the loop got {had} in this epoch and has waited {duration(max(end - loader.now_since, 0.0))} for the next"
    if lost.batches > 1:
        what = "batch" if failure.batch is not None else "item"
        yield f"at least {many(lost.batches, what)} of this epoch were dropped the same way"
    for one in failure.unpicklable[1:]:
        yield f"this cannot be pickled either: {one}"
    by = f", collate_fn {_collates(loader)}" if loader.collate_fn else ""
    yield f"loader: {loader.name}{by}"


def _ways(failure: Failure, loader: Loader) -> list[Remedy]:
    """The fix, and other ways out."""
    whole = _noun(failure)
    by = f"what {_collates(loader)} returns" if loader.collate_fn and failure.batch is not None else f"the {whole}"
    if not failure.unpicklable:
        return [
            Remedy(f"Return plain data only: {PLAIN}."),
            Remedy("Find what fails: pickle one batch in the main process, as the worker does", code=PICKLE),
        ]
    name, kind = _parts(failure.unpicklable[0])
    if kind.startswith(TENSOR):
        return [
            Remedy("Detach the tensor before it leaves the worker", code=[f"{name} = {name}.detach()"]),
            Remedy("Compute it without gradients", code=["with torch.no_grad():"]),
        ]
    if kind.startswith(CLASS):
        return [
            Remedy(f"Define the class of {name} at the top of a module, outside any function."),
            Remedy(f"Put its plain values into the {whole} instead: {PLAIN}."),
        ]
    if kind.startswith((LAMBDA, INSIDE_FUNCTION)):
        return [
            Remedy(f"Remove {name} from {by}: return the values it needs, and call the function in the training loop."),
            Remedy("Define the function at the top of a module; functools.partial carries values along."),
        ]
    return [Remedy(f"Remove {name} from {by}: read what you need from it in the worker, and return that.")]


def _collates(loader: Loader) -> str:
    return (loader.collate_fn or "").rpartition(".")[2]
