"""A run that its launcher has started anew: the newest attempt is what is judged, of earlier ones how each ended."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.distributed import Attempt
from ..model.evidence import Evidence, Exit, Run
from ..model.first_dead import first_dead
from ..model.recorded import Process


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
    first = first_dead(Evidence(run=Run(id=""), recording=ranks, exits=list(exits)))
    failure = first.failure if first is not None else None
    return Attempt(
        number=number,
        began=min(one.opened for one in ranks),
        ended=first.at if first is not None else max(one.last_sign for one in ranks),
        ranks=len(ranks),
        rank=first.process.rank if first is not None else None,
        pid=first.process.pid if first is not None else None,
        status=first.status if first is not None else None,
        type=failure.type if failure is not None else "",
        message=failure.message if failure is not None else "",
        where=first.where if first is not None else None,
        steps=max(one.optimizer_steps for one in ranks),
        batches=max((loader.batches for one in ranks for loader in one.loaders), default=0),
    )
