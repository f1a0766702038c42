"""A worker could not send a batch it had made, because something in it cannot be pickled, and nobody tells the loop.

## What it looks at
The exception in the thread that sends a worker's batches: the batch's number, and what in it is of a kind that cannot
be sent. Then the main process: whether it waits for a batch of the same pass, for how long, or how it ended there.

## Why it happens
A worker hands its batch to a queue, and a thread of the queue pickles it. If that fails, the thread prints a traceback,
drops the batch and goes on. Neither the worker nor the main process hears of it: the loop waits for this batch for
ever, while the workers are idle and look healthy. Lambdas, functions and classes defined inside a function, generators,
locks, open files, database handles, and tensors that were computed with gradients on cannot be pickled. With
`num_workers=0` nothing is pickled, and the same code works.

## What to do
Hand over plain data: tensors, numbers, strings, lists and dicts of them, objects of classes defined at the top of a
module. Do what the function or handle was for in the main process, after the batch has come.

## How sure it is
Certain that the batch was dropped. It speaks only where the loop stands waiting in the pass that lost it; a message
that was lost in another queue of the program, or a batch that a loop which was left never asked for, is none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.standstill import LONG
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, LoaderState
from ...evidence.process import Failure, Process
from ...wording.text import duration, many, said, short, who
from ..rule import Level, rule
from ._torchdata import is_of_nodes

TIMED_OUT = "DataLoader timed out after"  # torch's own words, where the loader has a timeout
INSIDE_FUNCTION = ("(a lambda", "(defined inside")
TENSOR, CLASS = "(a tensor", "(of the class"  # as inside/loading/pickling.py puts it
RESOURCES = ("shared memory", "Too many open files", "No space left", "Cannot allocate memory", "mmap")


class Lost(NamedTuple):
    """The first batch of a pass that could not be sent, and the loop that waits for it."""

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
    """For long, or until it ended, with this worker at its service."""
    if loader.now != LoaderState.WAITING or worker.pid not in loader.pids[-max(loader.num_workers, 1) :]:
        return False
    looked = case.looked_at or 0.0
    return case.stall is not None or not main.alive or looked - loader.now_since >= LONG


def _counts(main: Process, loader: Loader, one: Failure) -> bool:
    """Of the pass that goes on, and not yet delivered; not for lack of memory or descriptors."""
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
    return case.finding(
        lost.worker,
        cause=_cause(lost, timed_out=ended),
        seen=list(_seen(case, lost)),
        remedy=_remedy(failure, loader),
        onset_s=failure.at,
        where=failure.culprit or loader.created,
        subject=Subject("batch" if failure.batch is not None else "sample", str(_number(failure))),
        symptom=(Symptom.CRASHED if ended else Symptom.STUCK).value,
    )


def _cause(lost: Lost, *, timed_out: bool) -> str:
    names = lost.failure.unpicklable
    what = names[0] if names else "something in it"
    waits = "waited for it until its timeout" if timed_out else "waits for it for ever"
    rank = f" of rank {lost.main.rank}" if lost.main.rank is not None else ""
    return (
        f"{_name(lost.failure)} of {lost.loader.name} was made and then dropped, because {what} cannot be "
        f"pickled: the loop{rank} {waits}."
    )


def _number(failure: Failure) -> int | str | None:
    return failure.batch if failure.batch is not None else failure.index


def _name(failure: Failure) -> str:
    """Workers of a DataLoader send batches, those of torchdata's nodes items."""
    return f"{'Batch' if failure.batch is not None else 'Item'} {_number(failure)}"


def _seen(case: Case, lost: Lost) -> Iterator[str]:
    failure, loader = lost.failure, lost.loader
    yield f"{who(lost.worker)}, in the thread that sends what it made: {said(failure)}"
    if failure.culprit is not None:
        yield f"that function is written at {short(failure.culprit)}"
    for one in failure.unpicklable[1:]:
        yield f"nor can this be pickled: {one}"
    end = case.looked_at or (lost.ended.at if lost.ended is not None else lost.main.last_sign)
    if case.stall is not None:
        end = max(end, case.stall.since + case.stall.seconds)
    had = many(loader.pass_batches, "batch") if loader.pass_batches else "no batch"
    yield f"the loop had {had} in this pass and has waited {duration(max(end - loader.now_since, 0.0))} for the next"
    if lost.batches > 1:
        what = "batch" if failure.batch is not None else "item"
        yield f"at least {many(lost.batches, what)} of it were dropped that way"


def _remedy(failure: Failure, loader: Loader) -> Remedy:
    names = [one.partition(" (")[0] for one in failure.unpicklable]
    by = f" that {_collates(loader)} returns" if loader.collate_fn and failure.batch is not None else ""
    whole = "batch" if failure.batch is not None else "item"
    if not names:
        return Remedy(
            f"Let the {whole}{by} hold tensors, numbers, strings, and lists and dicts of them only. To see what is in "
            "the way: pickle.dumps(next(iter(DataLoader(..., num_workers=0))))."
        )
    first, kind = names[0], failure.unpicklable[0]
    if TENSOR in kind:
        return Remedy(f"Hand over {first}.detach(), or compute it under `with torch.no_grad():`.")
    if CLASS in kind:
        return Remedy(
            f"Define the class of {first} at the top of a module, outside of any function; or let the {whole}{by} hold "
            "its plain values instead: tensors, numbers, strings, lists and dicts of them."
        )
    if any(mark in kind for mark in INSIDE_FUNCTION):
        return Remedy(
            f"Take {first} out of the {whole}{by}: hand over the plain values it works with (lengths, names, numbers), "
            "and call the function in the training loop. Or define it at the top of a module, where functools.partial "
            "can carry values along."
        )
    return Remedy(
        f"Take {first} out of the {whole}{by}: read what is needed from it in the worker and hand over the result, as "
        "tensors, numbers, strings, lists or dicts."
    )


def _collates(loader: Loader) -> str:
    return (loader.collate_fn or "").rpartition(".")[2]
