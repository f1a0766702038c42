"""A run that its launcher has started anew: the newest attempt is what is judged, of earlier ones how each ended."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.distributed import Attempt
from ..model.evidence import Exit
from ..model.questions import user_line
from ..model.recorded import Process

ASKED_TO_GO = (0, -15)  # of what the launcher ends when another rank has died
LATE = 1e9


def split(processes: Sequence[Process], exits: Sequence[Exit]) -> tuple[list[Process], list[Attempt]]:
    """Only ranks belong to an attempt: who launches them, and what ran before them, to all."""
    numbers = sorted({one.attempt for one in processes if one.rank is not None and one.role == "main"})
    if len(numbers) < 2:
        return list(processes), []
    newest = [one for one in processes if one.rank is None or one.attempt == numbers[-1]]
    earlier = [
        _attempt(ordinal, [one for one in processes if one.rank is not None and one.attempt == number], exits)
        for ordinal, number in enumerate(numbers[:-1])
    ]
    return newest, earlier


def _attempt(number: int, processes: list[Process], exits: Sequence[Exit]) -> Attempt:
    ranks = [one for one in processes if one.role == "main"]
    statuses = {one.pid: one for one in exits}
    first = min(ranks, key=lambda one: _died(one, statuses.get(one.pid)))
    died, failure, ended = _died(first, statuses.get(first.pid)), first.failure, statuses.get(first.pid)
    return Attempt(
        number=number,
        began=min(one.opened for one in ranks),
        ended=died if died < LATE else max(one.last_sign for one in ranks),
        ranks=len(ranks),
        rank=first.rank,
        pid=first.pid,
        status=ended.status if ended is not None else None,
        type=failure.type if failure is not None else "",
        message=failure.message if failure is not None else "",
        where=user_line(failure) if failure is not None else None,
        steps=max(one.optimizer_steps for one in ranks),
        batches=max((loader.batches for one in ranks for loader in one.loaders), default=0),
    )


def _died(process: Process, seen: Exit | None) -> float:
    """When, if not because it was asked to."""
    if process.failure is not None and process.failure.how == "uncaught":
        return process.failure.at
    return seen.at if seen is not None and seen.status not in ASKED_TO_GO else LATE
