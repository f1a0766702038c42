"""A collective that only some ranks call: which, who, what the others called instead, and in which phase."""

from __future__ import annotations

from typing import NamedTuple

from .distributed import Collective, Phase
from .epochs import VALIDATION
from .evidence import Evidence
from .first_dead import KILLED
from .mismatch import differing
from .parting import Parting, line_of, parted, trained
from .ranks import Stand, all_wait, entry_name
from .uneven import skipped, uneven

SOON = 3.0  # seconds from the last batch of a validation to the call about its result, and until a crash there is seen
BY_DDP = ("backward", "forward", "DistributedDataParallel", "")


class Alone(NamedTuple):
    """The call, who made it, and where everybody stands."""

    parting: Parting
    who: Stand  # the first of those who made it
    stands: list[Stand]
    phase: Phase | None  # that it made the call in

    @property
    def call(self) -> str:
        return entry_name(self.parting.first)

    @property
    def others(self) -> list[Stand]:
        return [one for one in self.stands if one.rank in self.parting.others]

    @property
    def known(self) -> bool:
        """The others have called that line before."""
        return any(_calls(one, self.parting.first) for one in self.others)

    @property
    def in_validation(self) -> bool:
        """In one that none of the others has entered."""
        phase = self.phase
        return phase is not None and phase.kind == VALIDATION and not any(_entered(one, phase) for one in self.others)


def alone(evidence: Evidence) -> Alone | None:
    """None where uneven or skipped batches explain that the ranks parted, or where only the sizes of a call differ."""
    stands = all_wait(evidence)
    found = (parted(stands) or _by_counts(stands)) if stands else None
    if found is None or uneven(evidence) is not None or skipped(evidence) is not None or differing(evidence):
        return None
    if found.instead is None and all(_only_late(other, found, stands) for other in stands):
        return None
    who = next(one for one in stands if one.rank == found.ranks[0])
    return Alone(found, who, stands, _phase_at(who, found.first.at))


def _only_late(stand: Stand, found: Parting, stands: list[Stand]) -> bool:
    """It made the call; or it was told to go before it came there, with no sign that it went another way."""
    if stand.rank in found.ranks:
        return True
    batches = trained(stands)
    ahead = batches.get(stand.rank, 0) > batches.get(found.ranks[0], 0)
    return stand.sent_away and not stand.waits and not ahead


def _by_counts(stands: list[Stand]) -> Parting | None:
    """Without its Flight Recorder: a rank that crashed in a collective, while others train on batches after its last.

    Native code that was sent too much data ends the process at once.
    """
    batches = trained(stands)
    for one in stands:
        crashed = one.death is not None and one.death.how == KILLED and one.call not in BY_DDP
        ahead = [other.rank for other in stands if batches.get(other.rank, 0) > batches.get(one.rank, 0) > 0]
        call = Collective(0, one.call, one.death.at if one.death is not None else 0.0, where=one.where)
        if crashed and len(ahead) == len(stands) - 1 and not any(_calls(other, call) for other in stands):
            return Parting([call], [one.rank], ahead, None)
    return None


def _calls(stand: Stand, call: Collective) -> bool:
    """It is known to have called this line, too."""
    return stand.process is not None and any(line_of(one) == line_of(call) for one in stand.process.collectives)


def _phase_at(stand: Stand, moment: float) -> Phase | None:
    """The innermost: the one that began last. A mean is reduced after the loop, so a validation lasts a bit longer."""
    phases = stand.process.phases if stand.process is not None else []
    begun = [one for one in phases if one.at <= moment]
    around = [one for one in begun if one.ended is None or moment <= one.ended]
    newest = begun[-1] if begun else None
    if newest is not None and newest.kind == VALIDATION and newest.ended is not None:
        just_left = not around or moment - newest.ended <= SOON
        return newest if just_left else around[-1]
    return around[-1] if around else None


def _entered(stand: Stand, phase: Phase) -> bool:
    phases = stand.process.phases if stand.process is not None else []
    return any(one.kind == VALIDATION and one.number == phase.number for one in phases)
