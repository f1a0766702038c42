"""One rank died, and all the others died of it.

## What it looks at
How every rank ended, and when: its last words, its exit status, the line it was at. An exception in torch's own words
for a lost partner ("Connection closed by peer", "Connection reset by peer", NCCL's "remote process exited") is an echo,
so is a collective that timed out afterwards, and so is SIGTERM from the launcher. What remains is the first.

## Why it happens
Ranks are connected to each other. When one ends, the others fail in their next collective, each with an error of its
own about the network, and mostly those are the ones that are seen: there are more of them, and they come last.

## What to do
Look at the first rank only. The errors of the others, and the launcher's own, say nothing about the cause.

## How sure it is
Certain of how each rank ended. Which was first is certain where only one did not fail by losing a partner; else it is
the earliest. Where a rank exited with code 0 before the others it is silent: that is another failure. Of a
CUDA error that is reported late, the line is only *likely*.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import SIGKILL, Case, reached
from ...analysis.memory import told_of_kill
from ...analysis.passes import EMPTY, raised_after_nothing
from ...analysis.rank_deaths import ASKED, Cascade, Death, cascade, of_others
from ...analysis.torch_errors import again, at, late, warned
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import duration, line, many, said, short, signal_name, who
from ..rule import Level, rule

SENDERS = "the scheduler or supervisor of that node, at a limit of memory or time, or a person; their log names it"


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording", "exits"),
    level=Level.ECHO,
    outranks=("uncaught-exception", "main-killed", "collective-timeout"),
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    found = cascade(case)
    if found is None:
        return
    first = found.first
    process, failure = first.process, first.failure
    yield case.finding(
        process,
        cause=f"{_died(first)}; {_rest(found)}.",
        seen=list(_seen(case, found)),
        remedy=_remedy(case, first),
        onset_s=first.at,
        where=first.where,
        subject=Subject("sample", str(failure.index)) if failure is not None and failure.index is not None else None,
        certainty=Certainty.LIKELY.value if late(failure) is not None else "",
        because_of=EMPTY if raised_after_nothing(process, failure) is not None else None,
    )


def _died(first: Death) -> str:
    name = who(first.process)
    if first.failure is not None:
        where = at(first.failure, first.where)
        return f"{name[:1].upper()}{name[1:]} died first, of {said(first.failure, 200).rstrip('.')}{where}"
    if first.status is not None and first.status < 0:
        where = f", at {short(first.where)}" if first.where is not None else ""
        return f"{signal_name(first.status)} ended {name} first{where}"
    return f"{name[:1].upper()}{name[1:]} left first, with exit code {first.status}"


def _rest(found: Cascade) -> str:
    count = len(found.others) + len(found.waiting)
    others = "the other rank" if count == 1 else f"the other {many(count, 'rank')}"
    if found.waiting:
        return f"{others} still {'waits' if count == 1 else 'wait'} for it"
    return f"{others} died of that"


def _seen(case: Case, found: Cascade) -> Iterator[str]:
    first = found.first
    if first.failure is not None:
        under = f", under {line(first.where)} in {first.where.function}" if first.where is not None else ""
        yield f"{who(first.process)}: {said(first.failure)}{under}, after {duration(first.at)}"
        yield from warned(first.failure)
    else:
        yield f"{who(first.process)} ended by {first.words} after {duration(first.at)}"
    if first.failure is None and first.status == SIGKILL:
        yield from told_of_kill(case.host_of(first.process), first.process.pid, first.at)
    yield from of_others(found)
    newest = first.process.newest_loader
    if newest is not None:
        yield reached(newest)


def _remedy(case: Case, first: Death) -> Remedy:
    rank = first.process.rank
    only = f"Look at rank {rank} only" if rank is not None else "Look at this process only"
    echoes = "what the other ranks and the launcher say about connections is an echo"
    error = late(first.failure)
    if error is not None:
        found = again(case, error)
        return Remedy(f"{only}: {echoes}. {found.text}", found.commands)
    if first.failure is not None:
        start = f", starting at {short(first.where)}" if first.where is not None else ""
        return Remedy(f"{only}{start}: {echoes}.")
    if first.status == SIGKILL or first.status in ASKED:
        return Remedy(f"{only}: {echoes}. {signal_name(first.status or 0)} has a sender: {SENDERS}.")
    if first.status is not None and first.status < 0:
        return Remedy(
            f"{only}: {echoes}. Native code crashed{_under(first)}; with the fault handler on, it prints where.",
            ["export PYTHONFAULTHANDLER=1"],
        )
    return Remedy(f"{only}: {echoes}. It left by sys.exit or os._exit: the reason stands in what it printed last.")


def _under(first: Death) -> str:
    return f" under {short(first.where)}" if first.where is not None else ""
