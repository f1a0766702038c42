"""dataloader-bound of a run without a recording: by samples of what its main thread and its workers were met at."""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.stacks import FETCHING, WAITING
from ...analysis.time_use import Loop, Time, loops
from ...evidence.finding import Finding, Remedy
from ...wording.text import duration, many, percent, short
from ._loading_share import IDLE, SENDING, SHARE, off_core
from ._worker_count import advice, room_by_samples

SAMPLED = 1.0  # seconds of samples: fewer are an anecdote
STARTED = 3.0  # seconds of age of the workers: before, the loop waits for its first batch, and that is no rate
RECORD = Remedy("Run it under `unstuck run`: a recording tells which batches take long to arrive.")


def sampled(case: Case) -> Iterator[Finding]:
    for loop in loops(case):
        if loop.looked < SAMPLED or loop.waiting < SHARE or not loop.gets_on or not _at_work(loop):
            continue
        most = loop.line if loop.idle < IDLE else None
        fix, *others = _ways(case, loop)
        yield case.finding(
            loop.main,
            cause=f"Training waits for data {percent(loop.waiting)} of the time: {_why(loop)}.",
            seen=list(_seen(loop)),
            remedy=fix,
            alternatives=others,
            where=most.where if most is not None else loop.at,
        )


def _at_work(loop: Loop) -> bool:
    """Its workers have existed for a while: neither just started, nor started again all the time."""
    settled = [one for one in loop.workers if one.age >= STARTED]
    return loop.alone or len(settled) > len(loop.workers) - len(settled) + loop.started


def _why(loop: Loop) -> str:
    most = loop.line
    function = most.where.function if most is not None and most.where is not None else ""
    if loop.alone:
        return f"num_workers=0 loads every batch in the training process{f', mostly in {function}' if function else ''}"
    if most is None or loop.idle >= IDLE:
        return "its workers are mostly idle, so samples are not the bottleneck"
    alone = len(loop.workers) == 1
    workers, their = ("its only worker spends", "its") if alone else ("its workers spend", "their")
    return f"{workers} {percent(most.seconds / loop.loaded)} of {their} time in {function}"


def _seen(loop: Loop) -> Iterator[str]:
    rest = [one for one in loop.times if one.what not in (WAITING, FETCHING)][:2]
    others = "".join(f", {percent(one.seconds / loop.looked)} {one.what}" for one in rest)
    yield f"over {duration(loop.looked)} of samples: {percent(loop.waiting)} {WAITING}{others}"
    parts = ", ".join(f"{percent(one.seconds / loop.loaded)} {_part(one)}" for one in loop.loading[:3])
    count = "" if loop.alone else f"{many(len(loop.workers), 'worker')}, "
    yield f"{count}time of loading: {parts}"
    spent = loop.spread
    if spent is not None and loop.idle < IDLE:
        yield f"{percent(spent.computing)} of loading is CPU time{off_core(spent)}"
    rank = "" if loop.main.rank is None else f" of rank {loop.main.rank}"
    yield f"the loop{rank} is at {short(loop.at)}"


def _part(one: Time) -> str:
    return one.what if one.where is None else f"{short(one.where)} ({one.where.function})"


def _ways(case: Case, loop: Loop) -> list[Remedy]:
    """The fix, and other ways out."""
    if not loop.alone and loop.idle >= IDLE:
        return [SENDING, RECORD] if loop.handing > SHARE else [RECORD]
    return advice(
        None,
        room_by_samples(case, loop),
        loop.spread,
        workers=len(loop.workers),
        needed=loop.needed,
        reason=f"training waits for data {percent(loop.waiting)} of the time",
        slow=short(loop.line.where) if loop.line is not None else "the samples",
    )
