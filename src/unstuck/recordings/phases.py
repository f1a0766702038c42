"""The stretches of a process's way: training, validation, checkpoints, and what the user calls by a name."""

from __future__ import annotations

from collections.abc import Callable

from ..evidence.distributed import Phase
from ..evidence.epochs import CHECKPOINT, FAR, UNKNOWN, Epochs, kind_of_pass, meant, takes_in
from ..evidence.process import Saved
from ..inside import format as f
from ..inside.format import Kind
from .passes import PassSeen, Recorded, passes, rows

NEWEST = 64
TOGETHER = 1.0  # seconds between two files of one checkpoint


class _Told:
    """A stretch that the user named."""

    def __init__(self, name: str, begun: int, number: int) -> None:
        self.kind, self.begun, self.number = meant(name), begun, number
        self.ended: int | None = None
        self.passes: list[PassSeen] = []

    def covers(self, moment: int) -> bool:
        return self.begun <= moment and (self.ended is None or moment <= self.ended)


def phases(facts: Recorded, saved: list[Saved], at: Callable[[int], float]) -> list[Phase]:
    """The newest, in the order of their beginning."""
    told = _told(facts)
    alone = []
    for one in passes(facts):
        around = next((other for other in reversed(told) if other.covers(one.begun)), None)
        if around is not None and takes_in(around.kind, one.modes):
            around.passes.append(one)
        else:
            alone.append(one)
    found = _numbered(told, alone, at)
    return sorted([*found, *_checkpoints(saved, found)], key=lambda one: one.at)[-NEWEST:]


def _told(facts: Recorded) -> list[_Told]:
    found: dict[tuple[int, int], _Told] = {}
    for one in rows(facts, Kind.PHASE):
        key = one[f.R_KEY], one[f.R_B]
        known = found.setdefault(key, _Told(facts.recording.string(one[f.R_KEY]), one[f.R_START], one[f.R_B]))
        if not one[f.R_A]:
            known.ended = one[f.R_START] + one[f.R_DURATION]
    return list(found.values())


def _numbered(told: list[_Told], alone: list[PassSeen], at: Callable[[int], float]) -> list[Phase]:
    """In the order of time, because epochs are counted in it."""
    epochs, usual = Epochs(), _Usual(alone)
    found = []
    both: list[_Told | PassSeen] = [*told, *alone]
    for one in sorted(both, key=lambda one: one.begun):
        if isinstance(one, _Told):
            found.append(_named(one, epochs.of_named(one.number, one.kind), at))
        else:
            kind = usual.kind(one)
            found.append(_passed(one, kind, epochs.of_pass(one.loader, one.number, kind), at))
    return found


class _Usual:
    """What passes over each loader are, by how they begin: one that has no step yet is taken for what others were."""

    def __init__(self, known: list[PassSeen]) -> None:
        self._training = {one.loader for one in known if one.steps}
        self._kinds: dict[tuple[int, int], str] = {}

    def kind(self, one: PassSeen) -> str:
        over, never = one.ended is not None, one.loader not in self._training
        enough = (over and not one.left) or (never and (over or one.batches >= FAR))
        kind = kind_of_pass(one.steps, one.modes, enough=enough, trains=bool(self._training))
        key = one.loader, one.modes
        if kind == UNKNOWN and one.ended is None:
            return self._kinds.get(key, UNKNOWN)
        self._kinds[key] = kind if self._kinds.get(key, kind) == kind else UNKNOWN
        return kind


def _named(one: _Told, number: int, at: Callable[[int], float]) -> Phase:
    newest = one.passes[-1] if one.passes else None
    return Phase(
        kind=one.kind,
        number=number,
        at=at(one.begun),
        ended=None if one.ended is None else at(one.ended),
        loader=newest.loader if newest else None,
        number_of_pass=newest.number if newest else None,
        batches=sum(each.batches for each in one.passes),
        steps=sum(each.steps for each in one.passes),
        left=any(each.left for each in one.passes),
        told=True,
    )


def _passed(one: PassSeen, kind: str, number: int, at: Callable[[int], float]) -> Phase:
    return Phase(
        kind=kind,
        number=number,
        at=at(one.begun),
        ended=None if one.ended is None else at(one.ended),
        loader=one.loader,
        number_of_pass=one.number,
        batches=one.batches,
        steps=one.steps,
        left=one.left,
    )


def _checkpoints(saved: list[Saved], others: list[Phase]) -> list[Phase]:
    """Files that were saved one right after the other are one checkpoint. In the background it is no stretch."""
    found: list[Phase] = []
    for one in saved:
        if one.background or one.failed:
            continue
        begun = found.pop().at if found and _same(found[-1], one, others) else one.at
        number = max((other.number for other in others if other.at <= begun), default=0)
        found.append(Phase(kind=CHECKPOINT, number=number, at=begun, ended=round(one.at + one.seconds, 3)))
    return found


def _same(before: Phase, one: Saved, others: list[Phase]) -> bool:
    ended = before.ended or before.at
    between = any(ended < moment < one.at for other in others for moment in (other.at, other.ended or 0.0))
    return one.at - ended <= TOGETHER and not between
