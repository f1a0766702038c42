"""What a recording says of distributed samplers at the beginning of passes."""

from __future__ import annotations

import msgspec

from ..evidence.distributed import Sampling
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts


def sampling(facts: Facts, number: int) -> list[Sampling]:
    """Of one loader, the first pass first."""
    return [_told(facts, one) for one in facts.noted(Kind.SAMPLING, number)]


def _told(facts: Facts, one: list[int]) -> Sampling:
    return msgspec.convert({**facts.recording.told(one[f.R_B]), "number": one[f.R_A]}, Sampling)
