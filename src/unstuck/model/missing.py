"""Which rank did not come to a collective in which others gave up waiting, and what it did instead."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence
from .first_dead import BY_ITSELF, FINISHED, GAVE_UP, PARTNER_GONE, Death, deaths
from .phrases import duration, short
from .places import Place
from .questions import newest_loader
from .ranks import Stand, elsewhere, stand
from .recorded import Process
from .torch_errors import TorchError, errors_of

LATE = 0.5  # of the time-out: a rank that came so much later than the others is who they waited for


class Absent(NamedTuple):
    """A rank that others waited for in vain."""

    rank: int
    process: Process | None
    doing: str  # in words, without its name; empty: it does not show
    where: Place | None = None  # the line it stood at meanwhile


class Wait(NamedTuple):
    """Ranks that gave up waiting, the first of them first, and for whom."""

    gave_up: list[Death]
    call: str  # all_reduce, barrier, backward …
    seconds: float | None
    absent: list[Absent]
    sure: bool  # who is absent is known, rather than who may be


def timed_out(evidence: Evidence) -> Wait | None:
    ended = deaths(evidence)
    gave_up = [one for one in ended if one.how == GAVE_UP]
    if not gave_up:
        return None
    first = gave_up[0]
    stands = {one.rank: one for one in stand(evidence)}
    mine = stands.get(first.process.rank if first.process.rank is not None else -1)
    seconds = _seconds(first)
    absent, sure = _absent(evidence, ended, gave_up, seconds)
    return Wait(gave_up, mine.call if mine is not None else "", seconds, absent, sure)


def _seconds(death: Death) -> float | None:
    """As torch says it, else as the group was made."""
    limit = next((one.timeout_ms for one in _errors(death) if one.timeout_ms is not None), None)
    if limit is not None:
        return limit / 1000
    return death.process.group.timeout if death.process.group is not None else None


def _errors(death: Death) -> list[TorchError]:
    return errors_of(death.failure) if death.failure is not None else []


def _absent(
    evidence: Evidence, ended: list[Death], gave_up: list[Death], seconds: float | None
) -> tuple[list[Absent], bool]:
    """By what torch says, by who had gone before, by stacks, by Flight Recorders, or as those that remain."""
    first = gave_up[0]
    ranks = {one.rank: one for one in evidence.ranks() if one.rank is not None}
    numbers = next((one.absent for one in _errors(first) if one.absent), [])
    if numbers:
        return [_recorded(number, ranks.get(number), first) for number in numbers], True
    gone = [one for one in ended if one.how in (*BY_ITSELF, FINISHED) and one.at < first.at]
    if gone:
        return [_ended(one) for one in gone if one.process.rank is not None], True
    apart = [one for one in elsewhere(evidence) if one.rank not in {other.process.rank for other in gave_up}]
    if apart:
        return [_seen(one) for one in apart], True
    late = _late(list(ranks.values()), first, seconds)
    if late:
        return [_recorded(one.rank or 0, one, first) for one in late], True
    echoed = {one.process.rank for one in ended if one.how in (GAVE_UP, PARTNER_GONE)}
    rest = [one for number, one in ranks.items() if number not in echoed]
    return [_recorded(one.rank or 0, one, first) for one in rest], len(rest) == 1


def _late(ranks: list[Process], first: Death, seconds: float | None) -> list[Process]:
    """Ranks whose Flight Recorder has not the call in which the first one gave up, or has it from much later."""
    newest = max(first.process.collectives, key=lambda one: one.at, default=None)
    if newest is None or seconds is None:
        return []
    late = []
    for rank in ranks:
        if rank is first.process or not rank.collectives:
            continue
        came = next(
            (one.at for one in rank.collectives if (one.group, one.sequence) == (newest.group, newest.sequence)), None
        )
        if came is None or came > newest.at + LATE * seconds:
            late.append(rank)
    return late


def _ended(death: Death) -> Absent:
    how = "had finished" if death.how == FINISHED else f"had died of {death.words}"
    return Absent(death.process.rank or 0, death.process, f"{how} {duration(death.at)} after the start", death.where)


def _seen(one: Stand) -> Absent:
    spot = f" at {short(one.where)} ({one.where.function})" if one.where is not None else ""
    return Absent(one.rank, one.process, f"was {one.doing or 'elsewhere'}{spot}", one.where)


def _recorded(rank: int, process: Process | None, first: Death) -> Absent:
    """What its recording says that it was in when the first one gave up."""
    if process is None:
        return Absent(rank, None, "left nothing behind")
    span = next((one for one in process.spans if one.at < first.at and (one.ended or first.at) >= first.at), None)
    if span is not None:
        spot = f" at {short(span.where)}" if span.where is not None else ""
        return Absent(rank, process, f"was in {span.name}{spot}", span.where)
    stage = process.stages_now[-1] if process.stages_now else None
    if stage is not None:
        return Absent(rank, process, f"was in the stage {stage.name} from {duration(stage.since)} on")
    loader = newest_loader(process)
    if loader is None or not loader.now:
        return Absent(rank, process, "")
    return Absent(rank, process, f"was {loader.now} of batch {loader.batches:,} from {duration(loader.now_since)} on")
