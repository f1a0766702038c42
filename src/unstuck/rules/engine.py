"""Runs every rule on the evidence and tells roots from consequences."""

from __future__ import annotations

import msgspec

from ..analysis.case import Case
from ..evidence import Evidence
from ..evidence.finding import Finding, Symptom
from .discovery import all_rules
from .rule import ANYTHING, Judgement, Rule


def judge(case: Case) -> list[Judgement]:
    return [judge_one(rule, case) for rule in all_rules().values()]


def judge_one(rule: Rule, case: Case) -> Judgement:
    """found, clear, unknown (a section it needs was not looked at) or broken (it raised; nothing else suffers)."""
    missing = [needed.replace("|", " or ") for needed in rule.needs if not _looked_at(needed, case)]
    if missing:
        return Judgement(rule.name, "unknown", missing=missing)
    try:
        findings = [
            msgspec.structs.replace(
                finding,
                rule=rule.name,
                symptom=finding.symptom or rule.explains.value,
                certainty=finding.certainty or rule.certainty.value,
            )
            for finding in rule.check(case)
        ]
    except Exception as error:  # noqa: BLE001  (any bug of one rule is that rule's verdict)
        return Judgement(rule.name, "broken", error=f"{type(error).__name__}: {error}")
    return Judgement(rule.name, "found" if findings else "clear", findings=findings)


def _looked_at(needed: str, case: Case) -> bool:
    """A section, or one of several: `recording|samples`."""
    return any(getattr(case, section) is not None for section in needed.split("|"))


def tried(evidence: Evidence) -> list[Judgement]:
    """What was found in the trials, each a recorded run of its own, once for each rule.

    A trial has no training: how long its loop waits for data says nothing, unless a rule holds of a loader alone.
    """
    rules, found = all_rules(), dict[str, Judgement]()
    for rung in evidence.trial.rungs if evidence.trial is not None else ():
        for finding in rung.findings:
            rule = rules.get(finding.rule)
            if rule is not None and (rule.explains is not Symptom.SLOW or rule.of_loader):
                own = msgspec.structs.replace(finding, role="root", because_of=None)
                found.setdefault(rule.name, Judgement(rule.name, "found", findings=[own]))
    return list(found.values())


def rank_findings(judgements: list[Judgement]) -> list[Finding]:
    """Most important first. What a finding's rule outranks is its consequence, and what says itself `because_of` it."""
    rules = all_rules()
    found = [finding for judgement in judgements for finding in judgement.findings]
    present = {finding.rule for finding in found}
    ranked = []
    for finding in found:
        above = [one for one in present if one == finding.because_of] + _above(finding.rule, present)
        if above and rules[finding.rule].fallback:
            continue
        root = _topmost(above, present) if above else None
        role = finding.role if root is None else "consequence"
        ranked.append(msgspec.structs.replace(finding, role=role, because_of=root))
    return sorted([_with_worst_symptom(one, ranked) for one in ranked], key=_weight)


def _with_worst_symptom(finding: Finding, all_of_them: list[Finding]) -> Finding:
    """A run that died of growing memory is dead: a root shows the worst of what it led to.

    A stop from outside stays one: that processes lose each other, or raise in a handler, is how they go.
    """
    if finding.symptom == Symptom.STOPPED.value:
        return finding
    led_to = [one for one in all_of_them if one.because_of == finding.rule]
    if any(one.symptom == Symptom.STOPPED.value for one in led_to):  # and if it did not go, it was killed
        return finding
    worst = min([finding, *led_to], key=lambda one: Symptom(one.symptom).weight)
    return msgspec.structs.replace(finding, symptom=worst.symptom)


def _above(name: str, present: set[str]) -> list[str]:
    """Rules that were found and outrank this one, by their own word or by its."""
    rules = all_rules()
    return [
        other
        for other in sorted(present)
        if name in rules[other].outranks
        or other in rules[name].behind
        or _stands_behind(rules[name], rules[other])
        or _takes_over(rules[other], rules[name])
    ]


def _takes_over(rule: Rule, other: Rule) -> bool:
    """It gives the reason that the other has found in a trial; neither does so for the other."""
    return other.explains in rule.outranks and not any(isinstance(one, Symptom) for one in other.outranks)


def _stands_behind(rule: Rule, other: Rule) -> bool:
    """Behind anything, or anything of the other's kind; but neither behind what it outranks nor who stands so, too."""
    wide = ANYTHING in rule.behind or other.explains in rule.behind
    return wide and other.name not in (rule.name, *rule.outranks) and _stands_alone(other)


def _stands_alone(rule: Rule) -> bool:
    return not rule.fallback and not any(one == ANYTHING or isinstance(one, Symptom) for one in rule.behind)


def _topmost(above: list[str], present: set[str]) -> str:
    """The rule above all the others: one that no other outranks, of these or of those above these."""
    seen, waiting = set(above), list(above)
    for name in waiting:
        further = _above(name, present)
        if not further:
            return name
        waiting += [one for one in further if one not in seen]
        seen.update(further)
    return above[0]


def _weight(finding: Finding) -> tuple[bool, int, float, float]:
    """Of two that cost time, the one that costs more comes first. Without a share it is about the loop as a whole."""
    onset = finding.onset_s if finding.onset_s is not None else float("inf")
    share = finding.share if finding.share is not None else 1.0
    return finding.role != "root", Symptom(finding.symptom).weight, onset, -share
