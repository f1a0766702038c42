"""Ranks that got different numbers of batches, or did different numbers of steps with the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .distributed import Collective, Phase
from .evidence import Evidence
from .parting import same
from .ranks import Stand, all_wait, unfinished
from .shares import Share, joins, shared_loaders, together

BY_DDP = ("backward", "forward")


class Apart(NamedTuple):
    """One rank that is through, or ahead, and those that wait for it."""

    one: Share
    behind: list[Share]
    stands: list[Stand]

    @property
    def first(self) -> Share:
        return self.behind[0]

    @property
    def batch(self) -> int:
        """The first one's batch that the other never had. It has it already, or is about to ask for it."""
        return max(self.first.loader.batches, self.one.loader.batches + 1)


def uneven(evidence: Evidence) -> Apart | None:
    """A rank whose pass came to its end, while others wait with a batch that it never had."""
    stands = all_wait(evidence)
    for shares in shared_loaders(stands):
        short = [one for one in _kinds(shares) if _is_through(one)]
        for one in sorted(short, key=lambda one: one.loader.batches):
            longer = [other for other in shares if _has_more(other, one)]
            if longer and not joins(one):
                return Apart(one, longer, stands)
    return None


def skipped(evidence: Evidence) -> Apart | None:
    """A rank that is through a batch, without the step that others want to make with theirs, where they stand."""
    stands = all_wait(evidence)
    for shares in shared_loaders(stands) if uneven(evidence) is None else ():
        for one in sorted(_kinds(shares), key=lambda one: -one.loader.batches):
            behind = [other for other in shares if _is_behind(other, one)]
            if behind and not joins(one):
                return Apart(one, behind, stands)
    return None


def _kinds(shares: list[Share]) -> list[Share]:
    """One of each state: of a thousand ranks, most are where most others are."""
    kinds: dict[tuple[object, ...], Share] = {}
    for one in shares:
        loader, stand = one.loader, one.stand
        state = loader.passes, loader.batches, loader.now, one.process.optimizer_steps, stand.spot, stand.ended
        kinds.setdefault(state, one)
    return list(kinds.values())


class Shift(NamedTuple):
    """A pass with equal batches in which two ranks made different numbers of steps, and calls."""

    fewer: Share
    more: Share
    number: int  # of the pass
    batches: int
    steps: tuple[int, int]
    seen_at: int  # a pass, this one or a later one, after which the sequence numbers are known
    begins: tuple[int, int]  # of the first collective after that


def shifted(stands: list[Stand]) -> Shift | None:
    """Ranks out of step, of a run that goes on or has ended; but not if all made equally many steps in the end."""
    for shares in shared_loaders(stands):
        ended = all(one.stand.ended for one in shares)
        if ended and len({one.process.optimizer_steps for one in shares}) == 1:
            continue
        for one, most in _out_of_step(shares):
            found = _shift(one, most)
            if found is not None and not joins(one):
                return found
    return None


def _out_of_step(shares: list[Share]) -> Iterator[tuple[Share, Share]]:
    """Ranks that made fewer steps in a pass than the rank that made most, and that rank."""
    most: dict[int | None, tuple[int, Share]] = {}
    for one in shares:
        for phase in one.passes:
            if phase.steps > most.get(phase.number_of_pass, (0, one))[0]:
                most[phase.number_of_pass] = phase.steps, one
    for one in shares:
        fewer = [most[phase.number_of_pass] for phase in one.passes if phase.number_of_pass in most]
        own = [phase.steps for phase in one.passes if phase.number_of_pass in most]
        other = next((share for (steps, share), mine in zip(fewer, own, strict=True) if steps > mine), None)
        if other is not None:
            yield one, other


def _shift(one: Share, other: Share) -> Shift | None:
    """The first pass with equal batches and fewer steps, and the first pass from there on whose end both know."""
    mine, theirs = ({phase.number_of_pass or 0: phase for phase in each.passes} for each in (one, other))
    both = sorted(mine.keys() & theirs.keys())
    fewer = next((number for number in both if _fewer_steps(mine[number], theirs[number])), None)
    if fewer is None or any(mine[number].batches != theirs[number].batches for number in both):
        return None
    for number in both:
        begins = _begins(one, mine[number]), _begins(other, theirs[number])
        if number >= fewer and begins[0] is not None and begins[1] is not None:
            steps = mine[fewer].steps, theirs[fewer].steps
            found = Shift(one, other, fewer, mine[fewer].batches, steps, number, (begins[0], begins[1]))
            return found if begins[0] != begins[1] else None
    return None


def _fewer_steps(one: Phase, other: Phase) -> bool:
    return 0 < one.steps < other.steps and one.batches == other.batches and not one.left and not other.left


def _begins(one: Share, phase: Phase) -> int | None:
    """The number of the first collective after a pass. None: the Flight Recorder does not reach back so far."""
    calls = [call for call in one.process.collectives if not call.group]
    ended = phase.ended or 0.0
    if not calls or calls[0].at > ended:
        return None
    return next((call.sequence for call in calls if call.at > ended), None)


def _is_through(one: Share) -> bool:
    """It came to the end of its newest pass, and waits elsewhere, has ended, or was told to go when the others died."""
    gone = one.stand.waits or one.stand.ended or one.stand.sent_away
    return not one.inside and not one.left and one.loader.passes > 0 and gone


def _has_more(other: Share, one: Share) -> bool:
    """In a pass that the one has ended. One that is in a later pass had no more: it left out what the one waits in."""
    waits = other.inside and (other.stand.waits or other.stand.sent_away)
    more = other.loader.batches > one.loader.batches or _is_to_have_more(other, one)
    return waits and other.loader.passes <= one.loader.passes and more


def _is_to_have_more(other: Share, one: Share) -> bool:
    """It did all its steps with as many batches, and its loader has more: a trainer may call a collective before each.

    Where both announce as many, the announcement is no proof. Then it has to be a call that both make with every batch.
    """
    mine, theirs = one.loader, other.loader
    level = (theirs.passes, theirs.batches) == (mine.passes, mine.batches)
    stepped = other.process.optimizer_steps == one.process.optimizer_steps
    if not level or not stepped or theirs.length is None or theirs.length <= mine.pass_batches:
        return False
    return (mine.length is not None and mine.length < theirs.length) or _made_in_pass(one, unfinished(other.process))


def _made_in_pass(one: Share, call: Collective | None) -> bool:
    """It called the same in the middle of its newest pass, as often as it had batches."""
    newest = one.newest
    if call is None or newest is None:
        return False
    ended = one.loader.now_since
    made = [each for each in one.process.collectives if newest.at <= each.at <= ended and same(each, call)]
    return len(made) >= one.loader.pass_batches > 0


def _is_behind(other: Share, one: Share) -> bool:
    """It waits to make a step that the one has not made, with a batch that the one is through with."""
    number, steps = other.loader.passes, one.process.optimizer_steps
    had = one.in_pass(number)
    if other.rank == one.rank or had is None or not steps or steps > other.process.optimizer_steps:
        return False
    through = one.loader.passes > number or (one.loader.passes == number and not one.inside)
    ahead = had > other.loader.pass_batches or (had == other.loader.pass_batches and through)
    left = one.left and one.loader.passes == number and had < other.loader.pass_batches
    return (ahead or left) and _waits_to_step(other) and not (one.stand.waits and together(one.stand, other.stand))


def _waits_to_step(one: Share) -> bool:
    """In the middle of a batch, before its step: in DDP's own collectives, or with all steps made but this one."""
    waits = one.inside and (one.stand.waits or one.stand.sent_away)
    return waits and (one.stand.call in BY_DDP or one.process.optimizer_steps + 1 == one.loader.batches)
