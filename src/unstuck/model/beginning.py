"""How a process began, before its first step."""

from __future__ import annotations

import msgspec


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of the modules that were made: from the first parameter that was registered to the newest."""

    at: float
    ended: float
    parameters: int = 0  # tensors
    elements: int = 0  # numbers in them


class HeldBack(msgspec.Struct, frozen=True, omit_defaults=True):
    """Samples that a stream had read and not given when the first batch of a pass was there."""

    number: int  # of the pass, the first is 1
    name: str  # of the variable that holds them
    held: int
    at: float = 0.0
    of: str = ""  # whose variable it is
    size: int | None = None  # the most it may hold, where its owner says so
    shuffles: bool = False  # what holds it draws at random


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stretch of a rank's way to its first step."""

    rank: int | None
    name: str  # interpreter, imports, model, workers, first sample, first batch, first step, own code, a timed call
    at: float
    seconds: float
    going_on: bool = False
    told: str = ""  # what it did, or what moves while it goes on
