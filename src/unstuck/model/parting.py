"""Where the ranks' sequences of collectives part, by torch's Flight Recorder.

Collectives pair by their order and by nothing else. One that a single rank calls too many, or too few, is paired with
whatever the others call next; from there on every pair is shifted, until one does not fit.
"""

from __future__ import annotations

from typing import NamedTuple

from .distributed import Collective
from .evidence import Evidence
from .places import Place
from .recorded import Process

# Collectives to which all ranks bring the same sizes; in the others, as scatter, they need not.
SAME_SIZES = ("all_reduce", "allreduce", "broadcast", "barrier")
BLOCK = 32  # collectives in a row that one rank alone may have called: a whole validation with a gather for each batch


class Parting(NamedTuple):
    """The first call that some ranks made and the others did not."""

    extra: list[Collective]  # in order, of the first of `ranks`
    ranks: list[int]  # who called it
    others: list[int]  # who did not
    instead: Collective | None  # what the first of the others called at that place; None: nothing
    certain: bool  # the sequences agree again once these calls are left out, or the others never call that line

    @property
    def first(self) -> Collective:
        return self.extra[0]


class Traces(NamedTuple):
    """Of the default group: each rank's calls by sequence number, from the first that all of them still have."""

    by_rank: dict[int, dict[int, Collective]]
    first: int
    last: int  # of the rank that came furthest

    def at(self, rank: int, number: int) -> Collective | None:
        return self.by_rank[rank].get(number)

    def calls(self, rank: int, begin: int) -> list[Collective]:
        return [one for number, one in sorted(self.by_rank[rank].items()) if number >= begin]


def traces(evidence: Evidence) -> Traces | None:
    """None: fewer than two ranks have told theirs."""
    found = {one.rank: _by_sequence(one) for one in evidence.ranks() if one.rank is not None and one.collectives}
    found = {rank: calls for rank, calls in found.items() if calls}
    if len(found) < 2:
        return None
    return Traces(found, max(map(min, found.values())), max(map(max, found.values())))


def parted(evidence: Evidence) -> Parting | None:
    """None: as far as they go, the ranks called the same."""
    told = traces(evidence)
    number = None if told is None else _first_misfit(told)
    if told is None or number is None:
        return None
    begin = _shifted_since(told, number)
    for start in range(begin, number + 1):
        found = _extra_at(told, start)
        if found is not None and (found.certain or start == number):
            return found
    return None


def same(one: Collective | None, other: Collective | None) -> bool:
    """The same call: also by the same line."""
    return one is not None and other is not None and fits(one, other) and line_of(one) == line_of(other)


def fits(one: Collective, other: Collective) -> bool:
    """They can be one and the same collective."""
    sized = one.operation in SAME_SIZES
    return one.operation == other.operation and (not sized or one.sizes == other.sizes)


def line_of(one: Collective) -> tuple[str, int] | None:
    where: Place | None = one.where
    return None if where is None else (where.file, where.line)


def _by_sequence(process: Process) -> dict[int, Collective]:
    return {one.sequence: one for one in process.collectives if not one.group}


def _first_misfit(told: Traces) -> int | None:
    """The first number at which the ranks' calls cannot be the same, or at which somebody waits and another has none."""
    for number in range(told.first, told.last + 1):
        calls = [told.at(rank, number) for rank in told.by_rank]
        made = [one for one in calls if one is not None]
        if any(not fits(made[0], one) for one in made[1:]):
            return number
        if len(made) < len(calls) and any(not one.finished for one in made):
            return number
    return None


def _shifted_since(told: Traces, number: int) -> int:
    """Back over pairs that fit, but were called at different lines."""
    while number > told.first and not _agree(told, number - 1):
        number -= 1
    return number


def _agree(told: Traces, number: int) -> bool:
    calls = [told.at(rank, number) for rank in told.by_rank]
    return all(same(calls[0], one) for one in calls[1:])


def _extra_at(told: Traces, start: int) -> Parting | None:
    """Split the ranks by what they called at this number: which side's call is the one too many?"""
    sides = _sides(told, start)
    if len(sides) != 2:
        return None
    one, other = sides
    options = [
        found for mine, theirs in ((one, other), (other, one)) if (found := _left_out(told, mine, theirs, start))
    ]
    certain = [found for found in options if found.certain]
    if len(certain) == 1:
        return certain[0]
    return min(options, key=_likely, default=None)


def _likely(found: Parting) -> tuple[bool, int, int]:
    """Where nothing tells the sides apart: a call that DDP makes for itself, or that most ranks make, is no mistake."""
    return found.first.calls == "backward", len(found.ranks) - len(found.others), found.ranks[0]


def _sides(told: Traces, number: int) -> list[list[int]]:
    """Ranks that called the same, those who called nothing last."""
    sides: list[list[int]] = []
    for rank in told.by_rank:
        call = told.at(rank, number)
        side = next((one for one in sides if _alike(told.at(one[0], number), call)), None)
        if side is None:
            sides.append([rank])
        else:
            side.append(rank)
    return sorted(sides, key=lambda side: told.at(side[0], number) is None)


def _alike(one: Collective | None, other: Collective | None) -> bool:
    return one is other or same(one, other)


def _left_out(told: Traces, mine: list[int], theirs: list[int], start: int) -> Parting | None:
    """As if the first calls of one side from here on were too many."""
    calls, rest = told.calls(mine[0], start), told.calls(theirs[0], start)
    if not calls:
        return None
    alone = [one for one in calls if not _ever_called(told, theirs, one)]
    for length in range(1, min(len(calls), BLOCK) + 1):
        shifted = list(zip(calls[length:], rest, strict=False))
        if shifted and all(same(one, other) for one, other in shifted):
            return Parting(calls[:length], mine, theirs, rest[0] if rest else None, certain=True)
    never = calls[0] in alone
    return Parting(calls[:1], mine, theirs, rest[0] if rest else None, certain=never and not shifted_both(calls, rest))


def shifted_both(calls: list[Collective], rest: list[Collective]) -> bool:
    """Both sides went on for long after this call without ever agreeing again: then it says little."""
    return min(len(calls), len(rest)) > BLOCK


def _ever_called(told: Traces, ranks: list[int], call: Collective) -> bool:
    return any(line_of(one) == line_of(call) for rank in ranks for one in told.by_rank[rank].values())
