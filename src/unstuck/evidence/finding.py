"""What a rule has found: the cause, the evidence for it, and what to do."""

from __future__ import annotations

from enum import Enum

import msgspec

from .basics import Place


class Symptom(Enum):
    """What a run shows. The order is their weight."""

    CRASHED = "crashed"
    STUCK = "stuck"  # a standstill that does not end by itself
    STOPPED = "stopped"  # from outside: a signal, a time limit, preemption
    WRONG = "wrong"
    WAITING = "waiting"  # for something that may still come: a server, storage, other pods
    SLOW = "slow"

    @property
    def weight(self) -> int:
        return list(Symptom).index(self)


class Certainty(Enum):
    """How far the evidence of a finding goes. Only a certain cause may stop a run."""

    CERTAIN = "certain"  # nothing else that is known looks like this
    LIKELY = "likely"  # a healthy run may look so for a while: a slow server, a long computation
    POSSIBLE = "possible"  # worth a look; whether it is meant to be so, only the user knows


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
    certainty: str = ""
    share: float | None = None  # of the run's time that goes into it, where the rule can tell
    role: str = "root"
    because_of: str | None = (
        None  # of a rule's own finding: whose consequence this one is, if that rule finds something
    )
