"""A fatal signal ended a training process, or the command itself.

## What it looks at
The exit status of every main process, as its parent or the watcher saw it: SIGKILL, or one of the signals that a crash
in native code raises (SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGSYS). Where nothing imports torch, that of
the command itself. The Python line comes from what the process wrote down in its last moment.

## Why it happens
SIGKILL has a sender: a scheduler at its time limit, a supervisor, a person. The others come from native code: a library
that read past its memory, an assertion in C++, a wrong instruction set.

## What to do
For SIGKILL, the scheduler's log for this job. For the others, start at the line that is named. Where none is, run again
with `PYTHONFAULTHANDLER=1`, which makes the process print it. Where the program has enabled faulthandler itself, the
line is in its own output.

## How sure it is
Certain of the signal. SIGTERM, SIGINT and the like are a decision from outside (stopped-from-outside).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import COMMAND, SIGKILL, Case, reached
from ...analysis.memory import told_of_kill
from ...analysis.rank_deaths import crashed_at
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Process
from ...wording.text import duration, line, short, signal_name, who
from ..rule import Level, rule

FATAL = {-4, -5, -6, -7, -8, -11, -31, SIGKILL}


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("exits",), level=Level.ECHO)
def check(case: Case) -> Iterator[Finding]:
    for seen in sorted(case.exits or (), key=lambda one: one.at):
        process = case.process(seen.node, seen.pid, seen.at) or case.unrecorded_command(seen)
        if process is None or process.role not in ("main", COMMAND) or seen.status not in FATAL:
            continue
        newest, place = process.newest_loader, crashed_at(process)
        told = [reached(newest), f"it was {newest.now}"] if newest is not None else []
        if case.run.status == 0:
            told.append("the command went on without it and exited with code 0: what it had to do is missing")
        if place is not None:
            told.insert(0, f"native code crashed while it was at {line(place)} in {place.function}")
        name, where = _name(case, process), f" at {short(place)}" if place is not None else ""
        verb = "was killed" if seen.status == SIGKILL else "crashed"
        yield case.finding(
            process,
            cause=f"{name[:1].upper()}{name[1:]} {verb} ({signal_name(seen.status)}){where}.",
            seen=[
                f"{name} ended by {signal_name(seen.status)} after {duration(seen.at)}",
                *(told_of_kill(case.host_of(process), process.pid, seen.at) if seen.status == SIGKILL else ()),
                *told,
            ],
            remedy=_remedy(seen.status, place),
            onset_s=seen.at,
            where=place,
        )
        return


def _name(case: Case, process: Process) -> str:
    starter = case.process(process.node, process.parent)
    if starter is not None and starter.role == "main" and process.rank is None:
        return f"child process {process.pid} of the main process (pid {starter.pid})"
    if process.role != COMMAND:
        return who(process)
    program = case.run.command[0].rpartition("/")[2] if case.run.command else "it"
    return f"the command {program} (pid {process.pid})"


def _remedy(status: int, place: Place | None) -> Remedy:
    if status == SIGKILL:
        return Remedy("Look in the log of the scheduler or supervisor for what ended this job, and at which limit.")
    if place is not None:
        return Remedy(
            f"Start at {short(place)}: what is called there crashed in native code. Look at its arguments, then at the "
            "library's version."
        )
    return Remedy(
        "Native code crashed. Run again with the fault handler on: it prints the Python line that called it.",
        ["export PYTHONFAULTHANDLER=1"],
    )
