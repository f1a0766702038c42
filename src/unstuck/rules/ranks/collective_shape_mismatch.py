"""Ranks called the same collective with different sizes.

## What it looks at
A rank that a thread of gloo's aborted while its main thread stood in a collective: that is how gloo answers a message
which is larger than the room for it. What torch itself says where it compares the ranks (DDP when it is made,
`TORCH_DISTRIBUTED_DEBUG=DETAIL`, accelerate's debug mode). And the sizes in torch's Flight Recorder, where ranks are at
the same line with different ones.

## Why it happens
Most collectives want the same shape on all ranks. What differs is mostly the last batch of an epoch, a sequence length,
a mask that selects another number of rows on each rank, or a model that is built differently by rank.

## What to do
Make the sizes equal before the call: `drop_last=True`, padding to the longest (accelerate: `gather_for_metrics`,
`pad_across_processes`), or `all_gather_object`, which takes what each rank has.

## How sure it is
Certain where torch compared the ranks, and where their sizes are known. An abort by gloo's own thread inside a
collective has no other cause that is known here; the sizes are told as far as a rank lived to write them down. NCCL
does not check: there it hangs or gives wrong numbers, which was not tried here.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.collectives import DDP, Had, brought, differing, least, said_by_torch, shape
from ...analysis.rank_deaths import GAVE_UP, KILLED, PARTNER_GONE, Death, deaths
from ...analysis.ranks import waiting
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.text import duration, line, many, said, short, who
from ..rule import Level, rule

SIGABRT = -6
COLLECTIVES = "torch/distributed/distributed_c10d.py"
DIED = (KILLED, PARTNER_GONE, GAVE_UP)
COMPARE = "export TORCH_DISTRIBUTED_DEBUG=DETAIL"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    ended = deaths(case)
    found = _told(case, ended) or _recorded(case, ended) or _aborted(case, ended)
    if found is not None:
        yield found


def _told(case: Case, ended: list[Death]) -> Finding | None:
    """torch has compared the ranks and said so."""
    for one in ended:
        said_so = said_by_torch(one.failure) if one.failure is not None else None
        if said_so is not None and one.failure is not None:
            operation, had = said_so
            cause = f"{_call(operation, one.where)} found different sizes: {_list(had)}."
            ranks = {other.process.rank: other.process for other in ended}
            process = ranks.get(least(had).rank, one.process)
            seen = [f"{who(one.process)}: {said(one.failure)}"]
            return _finding(case, process, cause, seen, one.at, one.where, operation)
    return None


def _recorded(case: Case, ended: list[Death]) -> Finding | None:
    """The Flight Recorder of several ranks, where somebody died of it or nobody gets on."""
    some = differing(case)
    stands = {one.where for one in waiting(case) if one.where is not None}
    if not some or not (case.stall is not None or any(one.how in DIED for one in ended)):
        return None
    entry, where = some[0][1], some[0][1].where or next(iter(stands), None)
    had = [Had(one.rank or 0, shape(sizes.sizes)) for one, sizes in some]
    cause = f"{_call(entry.operation, where)} was called with different sizes: {_list(had)}."
    seen = [f"the same call, number {entry.sequence:,} of its group, in the Flight Recorders of these ranks"]
    process = next(one for one, _ in some if one.rank == least(had).rank)
    found = _finding(case, process, cause, seen, entry.at, where, entry.operation)
    return found if ended else msgspec.structs.replace(found, symptom=Symptom.STUCK.value)


def _aborted(case: Case, ended: list[Death]) -> Finding | None:
    """gloo's thread ended the process, for it got more than there was room for."""
    for one in ended:
        process, operation = one.process, _collective(one.process.crash_beside)
        gloo = process.group is not None and "gloo" in process.group.backend
        if one.status != SIGABRT or operation is None or not gloo:
            continue
        others = [other for other in ended if other.process is not process]
        had = [Had(other.process.rank or 0, shape) for other in others if (shape := brought(other.process, one.where))]
        name = who(process)
        cause = (
            f"{name[:1].upper()}{name[1:]} called {operation} at {short(one.where)} with a smaller tensor than another "
            f"rank{f' ({_list(had)})' if had else ''}: it got more than it had room for, and gloo aborted it."
        )
        seen = [
            f"a thread of gloo's aborted {name} after {duration(one.at)}, while it stood in {operation} at "
            f"{line(one.where)}",
            *(f"rank {other.process.rank} lost it at {line(other.where)}" for other in others if _lost(other)),
            *_batches(ended),
        ]
        return _finding(case, process, cause, seen, one.at, one.where, operation)
    return None


def _collective(calls: list[Place]) -> str | None:
    """The outermost call into torch's collectives, which is the one that the user made."""
    return next((one.function for one in calls if COLLECTIVES in one.file), None)


def _lost(other: Death) -> bool:
    return other.how == PARTNER_GONE and other.where is not None


def _batches(ended: list[Death]) -> Iterator[str]:
    """The last batch of a pass is the usual suspect."""
    rests = {one.process.rank: rest for one in ended if (rest := _rest(one.process))}
    if len(set(rests.values())) > 1:
        told = ", ".join(f"rank {rank} {many(rest, 'sample')}" for rank, rest in sorted(rests.items()))
        yield f"they were at the last batch of their pass, which is not the same on all: {told}"


def _rest(process: Process) -> int | None:
    """Samples of the last batch of a pass, if it is at that one and the loader simply goes through its dataset."""
    loader = process.newest_loader
    if loader is None or loader.drop_last or not loader.batch_size or not loader.dataset_length:
        return None
    full = (loader.dataset_length - 1) // loader.batch_size
    plain = loader.length == loader.pass_batches == full + 1
    return loader.dataset_length - full * loader.batch_size if plain else None


def _call(operation: str, where: Place | None) -> str:
    return operation + (f" at {short(where)}" if where is not None else "")


def _list(had: list[Had]) -> str:
    return ", ".join(f"rank {one.rank} had {one.what}" for one in had)


def _finding(
    case: Case, process: Process, cause: str, seen: list[str], at: float, where: Place | None, operation: str
) -> Finding:
    return case.finding(
        process,
        cause=cause,
        seen=seen,
        remedy=_remedy(process, operation, where, sizes_known="had [" in cause and "smaller" not in cause),
        onset_s=at,
        where=where,
        subject=Subject("collective", operation),
    )


def _remedy(process: Process, operation: str, where: Place | None, *, sizes_known: bool) -> Remedy:
    if operation == DDP:
        return Remedy("Build the same model on every rank: what depends on the rank or on its data must not shape it.")
    text = f"Give all ranks the same size before {_call(operation, where)}"
    if "gather" in operation:
        text += (
            ": drop_last=True in the DataLoader, or pad to the longest (accelerate: gather_for_metrics). "
            "all_gather_object takes any size"
        )
    if sizes_known or process.wrapped:  # with DDP on gloo, torch 2.13 crashes when it is told to compare
        return Remedy(f"{text}.")
    return Remedy(
        f"{text}. To have torch say what each rank brings, run it once more with its comparison on.", [COMPARE]
    )
