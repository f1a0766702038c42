"""Models that a process made distributed."""

from __future__ import annotations

import msgspec

from ..evidence.basics import Place
from ..evidence.distributed import Wrapped
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts


class _Facts(msgspec.Struct):
    kind: str = ""
    where: Place | None = None
    find_unused_parameters: bool = False
    static_graph: bool = False
    parameters: int = 0
    names: list[str] = []


def wrapped(facts: Facts) -> list[Wrapped]:
    return [_wrapped(facts, one) for one in facts.noted(Kind.WRAPPED)]


def _wrapped(facts: Facts, one: list[int]) -> Wrapped:
    told = msgspec.json.decode(facts.recording.string(one[f.R_A]) or "{}", type=_Facts)
    return Wrapped(at=facts.at(one[f.R_START]), **msgspec.structs.asdict(told))
