"""Runs every rule on the evidence and tells roots from consequences."""

from __future__ import annotations

import msgspec

from ..analysis.case import Case
from ..evidence import Evidence
from ..evidence.finding import Finding, Symptom
from .discovery import all_rules
from .rule import Judgement, Level, Rule

ENDS = {Symptom.CRASHED, Symptom.STUCK, Symptom.STOPPED, Symptom.WAITING}
Found = dict[str, set[Symptom]]  # rules that found something, and how it shows


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
            if rule is not None and (rule.explains is not Symptom.SLOW or rule.applies_to_trials):
                own = msgspec.structs.replace(finding, role="root", because_of=None)
                found.setdefault(rule.name, Judgement(rule.name, "found", findings=[own]))
    return list(found.values())


def rank_findings(judgements: list[Judgement]) -> list[Finding]:
    """Most important first: roots, then what is a consequence of another finding, which says so with `because_of`."""
    rules = all_rules()
    findings = [finding for judgement in judgements for finding in judgement.findings]
    found: Found = {}
    for finding in findings:
        found.setdefault(finding.rule, set()).add(Symptom(finding.symptom))
    ranked = []
    for finding in findings:
        above = [name for name in found if name == finding.because_of] + _above(finding.rule, found)
        if above and rules[finding.rule].fallback:
            continue
        root = _topmost(above, found) if above else None
        role = finding.role if root is None else "consequence"
        ranked.append(msgspec.structs.replace(finding, role=role, because_of=root))
    return sorted([_with_worst_symptom(finding, ranked) for finding in ranked], key=_weight)


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


def _above(name: str, found: Found) -> list[str]:
    """Rules that found something of which this rule's finding is a consequence."""
    rule, rules = all_rules()[name], all_rules()
    return [other for other in sorted(found) if other != name and is_above(rules[other], rule, found)]


def is_above(higher: Rule, rule: Rule, found: Found) -> bool:
    """By the name of either rule, by what it explains, or else by their levels."""
    for says in (_says_so, _yields_to_its_kind):
        if says(higher, rule) or says(rule, higher):
            return says(higher, rule)
    return higher.level > rule.level and _bears_on(higher, found[higher.name], rule, found[rule.name])


def _says_so(higher: Rule, rule: Rule) -> bool:
    return rule.name in higher.outranks or higher.name in rule.yields_to or _takes_over(higher, rule)


def _takes_over(higher: Rule, rule: Rule) -> bool:
    """It gives the reason that the other has found in a trial; neither does so for the other."""
    return rule.explains in higher.outranks and not any(isinstance(named, Symptom) for named in rule.outranks)


def _yields_to_its_kind(higher: Rule, rule: Rule) -> bool:
    """To all that explain a symptom, but for those who do so themselves, and for echoes of what this rule explains."""
    is_echo = higher.level is Level.ECHO and rule.level > Level.ECHO and rule.explains in ENDS
    stands = not higher.fallback and not _yields_to_a_kind(higher) and not is_echo
    return stands and higher.explains in rule.yields_to


def _yields_to_a_kind(rule: Rule) -> bool:
    return any(isinstance(named, Symptom) for named in rule.yields_to)


def _bears_on(higher: Rule, its: set[Symptom], rule: Rule, symptoms: set[Symptom]) -> bool:
    """Whether a finding that shows as `its` can be behind one that shows as `symptoms`.

    What ended or stands does so because of something that ended or stands, or because of wrong data where that is the
    proven cause. What is slow is so because of something slow; a broad word on it goes under when the run ended. An end
    that is only predicted shows as wrong, leaking or bad data: it is behind other predictions, not behind what has
    happened.
    """
    of_wrong_data = higher.explains is Symptom.WRONG and higher.level is Level.CAUSE
    if symptoms & ENDS:
        return bool(its & ENDS) or of_wrong_data
    if Symptom.SLOW in symptoms:
        return Symptom.SLOW in its or (bool(its & ENDS) and rule.level < Level.SPECIFIC)
    return _is_predicted(rule, symptoms) and (_is_predicted(higher, its) or of_wrong_data)


def _is_predicted(rule: Rule, symptoms: set[Symptom]) -> bool:
    return rule.explains in ENDS and not symptoms & {*ENDS, Symptom.SLOW, Symptom.WAITING}


def _topmost(above: list[str], found: Found) -> str:
    """The rule above all the others: one that no other outranks, of these or of those above these."""
    seen, waiting = set(above), list(above)
    for name in waiting:
        further = _above(name, found)
        if not further:
            return name
        waiting += [one for one in further if one not in seen]
        seen.update(further)
    return above[0]


def _weight(finding: Finding) -> tuple[bool, int, int, float, float]:
    """Of two that cost time, the one that costs more comes first. Without a share it is about the loop as a whole.

    Of two files that are bad, the one that a reader will stumble over comes before the one that is read wrongly.
    """
    onset = finding.onset_s if finding.onset_s is not None else float("inf")
    share = finding.share if finding.share is not None else 1.0
    explained = all_rules()[finding.rule].explains.weight
    return finding.role != "root", Symptom(finding.symptom).weight, explained, onset, -share
