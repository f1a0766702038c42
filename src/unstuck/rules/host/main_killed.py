"""A fatal signal ended a training process.

## What it looks at
The exit status of every main process, as its parent or the watcher saw it: SIGKILL, or one of the signals that a crash
in native code raises (SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE).

## Why it happens
SIGKILL has a sender: a scheduler at its time limit, a supervisor, a person. The others come from native code: a library
that read past its memory, an assertion in C++, a wrong instruction set.

## What to do
For SIGKILL, the scheduler's log for this job. For the others, run again with `PYTHONFAULTHANDLER=1`, which makes the
main process print the Python line it was at.

## How sure it is
Certain of the signal. SIGTERM, SIGINT and SIGHUP are somebody's decision and are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.evidence import Evidence
from ...model.first_dead import crashed_at
from ...model.phrases import duration, line, signal_name, who
from ...model.questions import SIGKILL, newest_loader, reached
from ...model.report import Certainty, Finding, Remedy, Symptom
from ...model.rule import rule

FATAL = {-4, -6, -7, -8, -11, SIGKILL}


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "exits"))
def check(evidence: Evidence) -> Iterator[Finding]:
    for seen in sorted(evidence.exits or (), key=lambda one: one.at):
        process = evidence.process(seen.pid)
        if process is None or process.role != "main" or seen.status not in FATAL:
            continue
        newest, place = newest_loader(process), crashed_at(process)
        told = [reached(newest), f"it was {newest.now}"] if newest is not None else []
        if place is not None:
            told.insert(0, f"native code crashed while it was at {line(place)} in {place.function}")
        yield Finding(
            cause=f"{signal_name(seen.status)} ended {who(process)}.",
            seen=[f"{who(process)} ended by {signal_name(seen.status)} after {duration(seen.at)}", *told],
            remedy=_remedy(seen.status),
            node=process.node,
            rank=process.rank,
            pid=process.pid,
            onset_s=seen.at,
            where=place,
        )
        return


def _remedy(status: int) -> Remedy:
    if status == SIGKILL:
        return Remedy("Look in the log of the scheduler or supervisor for who ended this job, and at which limit.")
    return Remedy(
        "Native code crashed. Run again with the fault handler on: it prints the Python line that called it.",
        ["export PYTHONFAULTHANDLER=1"],
    )
