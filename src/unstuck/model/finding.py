"""What a rule has found: the cause, the evidence for it, and what to do."""

from __future__ import annotations

from enum import Enum

import msgspec

from .places import Place


class Symptom(Enum):
    """What a run shows. The order is their weight."""

    CRASHED = "crashed"
    STUCK = "stuck"
    WRONG = "wrong"
    SLOW = "slow"

    @property
    def weight(self) -> int:
        return list(Symptom).index(self)


class Remedy(msgspec.Struct, frozen=True):
    """What to do: a person reads the text, a machine can run the commands."""

    text: str
    commands: list[str] = []


class Subject(msgspec.Struct, frozen=True):
    """What a finding is about: a sample, a file, a loader."""

    kind: str
    name: str


class Finding(msgspec.Struct, frozen=True):
    """One cause, with who, where, what, the evidence for it and the remedy."""

    cause: str
    seen: list[str]
    remedy: Remedy
    node: str | None = None
    rank: int | None = None
    worker: int | None = None
    pid: int | None = None
    onset_s: float | None = None
    where: Place | None = None
    subject: Subject | None = None
    rule: str = ""
    symptom: str = ""
    role: str = "root"
    because_of: str | None = None
