"""The shape of a rule and of its judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from ..analysis.case import Case
from ..evidence.finding import Certainty, Finding, Symptom

Check = Callable[[Case], Iterator[Finding]]
ANYTHING = "*"
Verdict = Literal["found", "clear", "unknown", "broken"]


class Rule(msgspec.Struct, frozen=True):
    """A check with what it explains, what it needs, and which other rules' findings it makes a consequence."""

    check: Check
    explains: Symptom
    needs: tuple[str, ...]
    certainty: Certainty
    outranks: tuple[str | Symptom, ...] = ()
    fallback: bool = False
    behind: tuple[str | Symptom, ...] = ()
    foretells: bool = False
    of_loader: bool = False

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
    outranks: tuple[str | Symptom, ...] = (),
    *,
    certainty: Certainty,
    fallback: bool = False,
    behind: tuple[str | Symptom, ...] = (),
    foretells: bool = False,
    of_loader: bool = False,
) -> Callable[[Check], Rule]:
    """Declare a rule: `needs` names sections of Evidence (`a|b`: one of them will do), `outranks` names rules,
    or a `Symptom`: all that explain one and came of a trial, whose reason this rule gives. `certainty` holds for every
    finding of the rule that does not say its own.

    A fallback is silent when it is outranked. `behind` is the same the other way round: rules that outrank this one,
    or `ANYTHING` that was found and is not behind or a fallback itself, or a `Symptom`: anything that explains one.
    What a rule that `foretells` finds is told while the run still goes on: there is time to do something about it.
    What is slow `of_loader` is so whatever the training does: the rule also holds of a trial, which has no training.
    """

    def declare(check: Check) -> Rule:
        return Rule(check, explains, needs, certainty, outranks, fallback, behind, foretells, of_loader)

    return declare
