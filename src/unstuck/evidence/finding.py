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
    LEAKING = "leaking"  # memory or descriptors that grow until there are no more
    BAD_DATA = "bad data"  # in files that were checked: no run has met it yet
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
    """One way out: what to do in a sentence, the code to write for it, the commands to run."""

    text: str
    commands: list[str] = []
    code: list[str] = []  # lines of the training's own source, as they should be


class Subject(msgspec.Struct, frozen=True):
    """What a finding is about: a sample, a file, a loader."""

    kind: str
    name: str


class Finding(msgspec.Struct, frozen=True):
    """One cause, with who, where, what, the evidence for it and the remedy."""

    cause: str
    seen: list[str]  # the evidence, the strongest first
    remedy: Remedy  # the first thing to do
    alternatives: list[Remedy] = []
    saw: str = ""  # the error that stood on the screen, as it can be searched for
    source: str = ""  # the line of code at `where`
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
