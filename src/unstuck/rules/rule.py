"""The shape of a rule and of its judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Literal

import msgspec

from ..analysis.case import Case
from ..evidence.finding import Certainty, Finding, Symptom

Check = Callable[[Case], Iterator[Finding]]
Verdict = Literal["found", "clear", "unknown", "broken"]


class Level(IntEnum):
    """How near to the cause of a failure the findings of a rule are."""

    ECHO = 0  # that something ended, stands or is late, as any failure shows: an exception, a killed process, a timeout
    GENERAL = 1  # which part of the training failed or holds it up, for one of several reasons
    SPECIFIC = 2  # the reason
    CAUSE = 3  # what is behind a reason of its own: the other reason is only how it shows


class Rule(msgspec.Struct, frozen=True):
    """A check with what it explains, what it needs, and which other rules' findings are consequences of its own."""

    check: Check
    explains: Symptom
    needs: tuple[str, ...]
    certainty: Certainty
    level: Level = Level.SPECIFIC
    outranks: tuple[str | Symptom, ...] = ()
    yields_to: tuple[str | Symptom, ...] = ()
    fallback: bool = False
    predicts: bool = False
    applies_to_trials: bool = False

    @property
    def name(self) -> str:
        return self.check.__module__.rpartition(".")[2].replace("_", "-")


class Judgement(msgspec.Struct, frozen=True):
    """What one rule says of one run."""

    rule: str
    verdict: Verdict
    findings: list[Finding] = []
    missing: list[str] = []
    error: str = ""


def rule(
    explains: Symptom,
    needs: tuple[str, ...],
    *,
    certainty: Certainty,
    level: Level = Level.SPECIFIC,
    outranks: tuple[str | Symptom, ...] = (),
    yields_to: tuple[str | Symptom, ...] = (),
    fallback: bool = False,
    predicts: bool = False,
    applies_to_trials: bool = False,
) -> Callable[[Check], Rule]:
    """Declare a rule: `needs` names sections of Evidence (`a|b`: one of them will do). `certainty` holds for every
    finding of the rule that does not say its own.

    Of two findings about the same trouble, the one with the higher `level` is the root and the other its consequence.
    What levels cannot say, `outranks` and `yields_to` do, and they win: names of rules; or a `Symptom`. What outranks a
    symptom gives the reason for all that explain it and came of a trial. What yields to a symptom yields to anything
    that explains it. A fallback is silent where it is a consequence.
    What a rule that `predicts` finds is told while the run still goes on: there is time to do something about it.
    A slow rule that `applies_to_trials` holds of a loader alone, whatever the training does.
    """

    def declare(check: Check) -> Rule:
        return Rule(
            check, explains, needs, certainty, level, outranks, yields_to, fallback, predicts, applies_to_trials
        )

    return declare
