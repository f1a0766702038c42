"""Between which marks of the log each rank stands, and what that means in this run.

What comes after what is not the same everywhere: in a plain loop validation follows the training epoch, in Lightning it
lies inside. So nothing is read out of the marks that this run has not really gone through.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from .distributed import Phase
from .epochs import CHECKPOINT
from .evidence import Evidence
from .ranks import Stand, listed, stand
from .recorded import Loader, Process

FEW = 8  # other ranks that are asked what came next: there may be a thousand
WAITS = "waiting for a batch"


class Position(NamedTuple):
    """Of one process, by the stretches that have marks."""

    inside: Phase | None  # the innermost that goes on
    after: Phase | None  # the newest that ended, inside that one or, if there is none, at all
    saved: bool  # a checkpoint was, since then


def position(process: Process) -> Position:
    marked = _marked(process)
    inside = next((one for one in reversed(marked) if one.ended is None), None)
    since = inside.at if inside is not None else 0.0
    ended = [one for one in marked if one.ended is not None and one.ended >= since]
    after = max(ended, key=lambda one: one.ended or 0.0, default=None)
    mark = max(since, (after.ended or 0.0) if after else 0.0)
    return Position(inside, after, any(one.kind == CHECKPOINT and one.at >= mark for one in process.phases))


def progress(process: Process) -> tuple[int, int]:
    """How far it has come: its epoch, and how many marks it has set in it. Of two ranks, the lower is behind."""
    marked = _marked(process)
    epoch = max((one.number for one in marked), default=-1)
    return epoch, sum(1 + (one.ended is not None) for one in marked if one.number == epoch)


def _marked(process: Process) -> list[Phase]:
    return [one for one in process.phases if one.kind != CHECKPOINT or one.told]


def between(process: Process, others: list[Process]) -> str:
    """In EPOCH 0 TRAINING, batch 5 of 8; after EPOCH 0 TRAINING END, before EPOCH 0 VALIDATION START."""
    if not process.phases:
        return ""
    inside, after, saved = position(process)
    behind = f"after {_name(after)} END" if after is not None else ""
    kept = " and a checkpoint" if saved else ""
    if inside is not None:
        parts = [f"in {_name(inside)}", _batch(process, inside), behind + kept if behind else ""]
        return ", ".join(part for part in parts if part)
    if after is None:
        return "before the first EPOCH START"
    coming = _following(after, [process, *others[:FEW]])
    return behind + kept + (f", before {coming} START" if coming else "")


def meaning(evidence: Evidence) -> str:
    """For a run of several ranks in which some wait: who is behind, and whether that is its own doing."""
    stands = [one for one in stand(evidence) if one.process is not None and one.process.phases]
    waiting = [one for one in stands if one.waits]
    if len(stands) < 2 or not waiting or any(one.death is not None and not one.ended for one in stands):
        return ""
    gone = [one for one in stands if one.ended]
    if gone:
        return f"{_where(gone, stands)}, and has ended; {_where(waiting, stands)}."
    own = [one for one in stands if not one.waits and one.seen is not None]
    if own:
        rest = "What keeps it is its own: its data, its computing, or what it does alone."
        return f"{_where(waiting, stands)}; {_where(own, stands)}, and in no collective. {rest}"
    return _parted(stands)


def _parted(stands: list[Stand]) -> str:
    """All of them wait."""
    places = {one.rank: progress(one.process) for one in stands if one.process is not None}
    last = min(places.values())
    behind = [one for one in stands if places[one.rank] == last]
    ahead = [one for one in stands if places[one.rank] != last]
    if ahead:
        parted = "They went different ways, and wait for each other."
        return f"{_where(ahead, stands)}; {_where(behind, stands, 'is still', 'are still')}. {parted}"
    spots = {one.spot for one in stands}
    if len(spots) == 1:
        return f"all ranks stand {_between(stands[0], stands)}, in the same call, {stands[0].spot}."
    where = ", ".join(f"rank {one.rank} in {one.spot}" for one in stands[:8])
    return f"all ranks stand {_between(stands[0], stands)}, in different calls: {where}."


def _where(ranks: list[Stand], stands: list[Stand], one: str = "stands", many: str = "stand") -> str:
    """Rank 0 stands after EPOCH 0 TRAINING END, in barrier at train.py:52."""
    places: dict[str, list[int]] = {}
    for each in ranks:
        spot = f", in {each.spot}" if each.waits else ""
        places.setdefault(_between(each, stands) + spot, []).append(each.rank)
    return "; ".join(f"{listed(who)} {one if len(who) == 1 else many} {place}" for place, who in places.items())


def _between(one: Stand, stands: list[Stand]) -> str:
    others = [other.process for other in stands if other.process is not None and other is not one]
    return between(one.process, others) if one.process is not None else ""


def _name(phase: Phase) -> str:
    return f"EPOCH {phase.number} {phase.kind.upper()}".rstrip()


def _batch(process: Process, phase: Phase) -> str:
    loader = next((one for one in process.loaders if one.number == phase.loader), None)
    if loader is None or phase.number_of_pass != loader.passes:
        return ""
    of = f" of {loader.length:,}" if loader.length else ""
    return f"waiting for batch {loader.pass_batches + 1:,}{of}" if _waits_for_data(loader) else _nth(loader, of)


def _waits_for_data(loader: Loader) -> bool:
    return loader.now in (WAITS, "about to ask for a batch", "starting the iterator") and (
        loader.length is None or loader.pass_batches < loader.length
    )


def _nth(loader: Loader, of: str) -> str:
    return f"batch {loader.pass_batches:,}{of}" if loader.pass_batches else ""


def _following(after: Phase, processes: list[Process]) -> str:
    """The mark that comes next, as it came on another rank, or in an earlier epoch."""
    for process in processes:
        marked = _marked(process)
        for one, following in pairwise(marked):
            same = one.kind == after.kind and one.ended is not None and following.at >= one.ended
            if same and (process is not processes[0] or one is not after):
                number = after.number + following.number - one.number
                return _name(Phase(kind=following.kind, number=number, at=0.0))
    return ""
