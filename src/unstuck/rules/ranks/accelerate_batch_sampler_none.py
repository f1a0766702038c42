"""A DataLoader without a batch sampler went into accelerate's `prepare`, which can only deal out batches.

## What it looks at
The loader before and after `prepare`, on every rank: `batch_size`, the batch sampler (inside accelerate's shard, which
is there even when it holds nothing), whether the dataset is a stream, the number of processes. Then the exception: a
TypeError about None out of accelerate's own sampler.

## Why it happens
`DataLoader(dataset, batch_size=None)` switches automatic batching off: the dataset's items are batches already, as
bucketed datasets do it. Such a loader has no batch sampler. On one process nothing needs one, and all is well. On
several, accelerate shares a map-style dataset out by wrapping the batch sampler, and wraps None. `prepare` says
nothing; `len(loader)` and the first batch raise `TypeError: 'NoneType' object is not iterable`. How much data there is
plays no part in it.

## What to do
Let the loader take one item at a time and unpack it: `batch_size=1, collate_fn=operator.itemgetter(0)`. An item stays a
whole batch, and there is a batch sampler to be shared out. Or keep the loader away from `prepare` and give each rank
its own part of the dataset.

## How sure it is
Certain: this loader cannot be iterated over on more than one process. It is silent on one process, for streams and with
dispatch_batches=True, where accelerate needs no batch sampler, and after a run that came to its end without using it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.shares import will_fail
from ...evidence.distributed import Prepared
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process
from ...wording.text import many, said, short, who
from ..rule import rule

RAISED = ("TypeError", "AttributeError")  # the second: older versions, already while they prepare


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), predicts=True)
def check(case: Case) -> Iterator[Finding]:
    doomed = [(one, prepared) for one in case.mains for prepared in one.prepared if will_fail(prepared)]
    failed = [one for one in doomed if _by_it(one[0].failure)]
    for process, prepared in sorted(failed, key=_when)[:1] or _waiting_for_it(doomed):
        failure = process.failure if failed else None
        yield case.finding(
            process,
            cause=_cause(prepared, failure),
            seen=list(_seen(process, prepared, failure, len(failed))),
            remedy=Remedy(_remedy(prepared)),
            onset_s=failure.at if failure is not None else None,
            where=prepared.where,
            subject=Subject("loader", _loader(process, prepared)),
            symptom=(Symptom.CRASHED if failed else Symptom.WRONG).value,
        )


def _by_it(failure: Failure | None) -> bool:
    if failure is None or failure.type not in RAISED or "NoneType" not in failure.message:
        return False
    return any("accelerate/data_loader.py" in one.file for one in failure.frames[-3:])


def _when(one: tuple[Process, Prepared]) -> float:
    return one[0].failure.at if one[0].failure is not None else 0.0


def _waiting_for_it(doomed: list[tuple[Process, Prepared]]) -> list[tuple[Process, Prepared]]:
    """Nobody has touched it yet, and the run goes on."""
    return [one for one in doomed if one[0].alive and not one[0].failures][:1]


def _cause(prepared: Prepared, failure: Failure | None) -> str:
    what = f"The DataLoader prepared at {short(prepared.where)} has batch_size=None and so no batch sampler"
    count = prepared.processes
    if failure is None:
        return f"{what}: accelerate cannot share it out over {count} processes, the first batch will raise."
    return f"{what}: accelerate could not share it out over {count} processes, and wrapped None in its place."


def _seen(process: Process, prepared: Prepared, failure: Failure | None, ranks: int) -> Iterator[str]:
    before, after = prepared.before, prepared.after
    held = "" if before.dataset_length is None else f", {many(before.dataset_length, 'item')} in its dataset"
    yield f"before prepare: {before.type.rpartition('.')[2]}, batch_size None, batch_sampler None{held}"
    if after is not None:
        shards = " around ".join([*(one.rpartition(".")[2] for one in after.shards), str(after.batch_sampler)])
        yield f"after prepare: {after.type.rpartition('.')[2]}, batch_sampler {shards}, on {prepared.device}"
    if after is not None and after.failed:
        yield f"its length after prepare: {after.failed}"
    if failure is not None:
        place = user_line(failure)
        also = f"; {ranks} ranks raised it" if ranks > 1 else ""
        yield f"{who(process)}: {said(failure)}, under {short(place)}{also}"


def _loader(process: Process, prepared: Prepared) -> str:
    dataset = next((one.dataset for one in process.loaders if one.number == prepared.loader), "")
    return f"the DataLoader over {dataset.rpartition('.')[2]}" if dataset else "the DataLoader"


def _remedy(prepared: Prepared) -> str:
    return (
        "Let the loader take one item at a time and unpack it: batch_size=1, collate_fn=operator.itemgetter(0) instead "
        f"of batch_size=None. An item stays a whole batch, and accelerate deals them out to the {prepared.processes} "
        "processes. Or leave the loader out of prepare, give each rank its own part of the dataset, and move the "
        "batches to accelerator.device."
    )
