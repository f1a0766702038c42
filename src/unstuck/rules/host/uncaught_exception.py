"""An exception that nobody caught ended the training, and no more precise rule explains it.

## What it looks at
The exception that ended a main process, written down on its way out: type, message, frames, what the process was doing,
and the batch it had last.

## Why it happens
This is the general case. The message and the line are the user's own; what unstuck adds is which rank raised first,
where the loop stood, and the sample if the exception came from fetching one.

## What to do
Start at the line named. If several ranks ended, look at the first: the others usually only lost their partner.

## How sure it is
Certain that this exception ended the process. It says nothing about why the line failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.evidence import Evidence
from ...model.phrases import line, said, short, who
from ...model.questions import STARTING, loader_name, newest_loader, reached, user_line
from ...model.recorded import Process
from ...model.report import Certainty, Finding, Remedy, Subject, Symptom
from ...model.rule import rule

OWN_DECISION = ("KeyboardInterrupt", "SystemExit")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(evidence: Evidence) -> Iterator[Finding]:
    failed = [one for one in evidence.recording or () if one.role in ("main", "launcher") and _crashed(one)]
    ranks = [one for one in failed if one.role == "main"] or failed
    for process in sorted(ranks, key=lambda one: one.failure.at if one.failure else 0.0)[:1]:
        failure = process.failure
        if failure is None:
            continue
        place = user_line(failure)
        where = f" at {short(place)}" if place is not None else ""
        yield Finding(
            cause=f"{failure.type} ended {who(process)}{where}{_meanwhile(process)}: {_message(failure.message)}",
            seen=list(_seen(process, len(ranks))),
            remedy=Remedy(_advice(process)),
            node=process.node,
            rank=process.rank,
            pid=process.pid,
            onset_s=failure.at,
            where=place,
            subject=None if failure.index is None else Subject("sample", str(failure.index)),
        )


def _crashed(process: Process) -> bool:
    return (
        process.failure is not None and process.failure.how == "uncaught" and process.failure.type not in OWN_DECISION
    )


def _message(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:200] if lines else "no message"


def _meanwhile(process: Process) -> str:
    """The stage that failed, where it is one of the loader's own."""
    newest = newest_loader(process)
    if newest is not None and newest.now == STARTING and newest.failed:
        return f", while the iterator of {loader_name(newest)} was made"
    return ""


def _seen(process: Process, ranks: int) -> Iterator[str]:
    failure = process.failure
    if failure is None:
        return
    place = user_line(failure)
    yield said(failure) + (f", under {line(place)} in {place.function}" if place is not None else "")
    if failure.index is not None:
        yield f"sample {failure.index} was being fetched"
    yield from (f"file in hand: {path}" for path in failure.paths[:2])
    newest = newest_loader(process)
    if newest is not None:
        yield reached(newest)
    if ranks > 1:
        yield f"{ranks} processes ended by an exception; this one was the first"


def _advice(process: Process) -> str:
    failure, newest = process.failure, newest_loader(process)
    if newest is not None and newest.now == STARTING and newest.failed:
        return (
            "The loader was made, but its workers or its sampler could not be started: look at what is handed to them "
            "(dataset, sampler, collate_fn, worker_init_fn), and try the same loader with num_workers=0."
        )
    if failure is not None and failure.paths:
        return f"Start at that line, with {failure.paths[0]} at hand."
    if failure is not None and failure.index is not None:
        return f"Start at that line, with sample {failure.index} at hand."
    return "Start at that line; the traceback above shows how it was reached."
