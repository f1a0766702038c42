"""A run that its launcher has started anew: the newest attempt is what is judged, of earlier ones how each ended."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.case import Case
from ..analysis.rank_deaths import first_dead
from ..evidence import Evidence, Exit, Run
from ..evidence.distributed import Attempt
from ..evidence.process import Process

REQUEUES = 1000  # an attempt's number holds how often Slurm has started the job again, times this


def split(processes: Sequence[Process], exits: Sequence[Exit]) -> tuple[list[Process], list[Attempt]]:
    """Ranks belong to an attempt of their launcher's, and everything to one life of its job.

    Within a life, launchers and what ran before the ranks belong to all attempts.
    """
    mains = [process for process in processes if process.role == "main"]
    newest = max((process.attempt for process in mains), default=0)
    life = newest // REQUEUES

    def is_earlier(process: Process) -> bool:
        return process.attempt // REQUEUES < life or (process.rank is not None and process.attempt < newest)

    numbers = sorted({process.attempt for process in mains if is_earlier(process)})
    earlier = [
        _attempt(ordinal, [process for process in mains if process.attempt == number and is_earlier(process)], exits)
        for ordinal, number in enumerate(numbers)
    ]
    return [process for process in processes if not is_earlier(process)], earlier


def _attempt(number: int, processes: list[Process], exits: Sequence[Exit]) -> Attempt:
    ranks = [one for one in processes if one.role == "main"]
    first = first_dead(Case(Evidence(run=Run(id=""), recording=ranks, exits=list(exits))))
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
