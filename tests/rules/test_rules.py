"""Every rule on the evidence of its real scenario, of its healthy neighbour, and on less than it needs."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest

from capture import kept, outcome, words
from kept import KEPT, OUTCOMES, evidence_of
from unstuck.analysis.case import Case
from unstuck.analysis.loading import lasted
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Timing
from unstuck.evidence.finding import Symptom
from unstuck.rules.discovery import HEADINGS, THREADS, all_rules, documentation
from unstuck.rules.engine import is_above, judge, judge_one

RULES = sorted(all_rules())


def evidence(rule: str, file: str) -> Evidence:
    return evidence_of(rule, file)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_its_failure_and_is_its_root(rule):
    roots = [one.rule for one in report_on(evidence(rule, "found")).findings if one.role == "root"]

    assert roots[0] == rule


@pytest.mark.parametrize("path", kept(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_whole_outcome_of_a_kept_case_is_this(path):
    name = f"{path.parent.name}/{path.stem}:"

    assert [line for line in OUTCOMES.read_text().splitlines() if line.startswith(name)] == [outcome(path)]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_exactly_these_words(rule):
    assert words(rule, evidence(rule, "found")) == (KEPT / rule / "found.txt").read_text()


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_at_all_speaks_of_the_healthy_neighbour(rule):
    report = report_on(evidence(rule, "clear"))

    assert [one.rule for one in report.findings] == []
    assert report.state == "healthy"


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_unknown_without_what_it_needs(rule):
    bare = Evidence(run=Run(id="nothing was looked at"))

    judgement = judge_one(all_rules()[rule], Case(bare))

    assert judgement.verdict == "unknown"
    assert set(judgement.missing) == {needed.replace("|", " or ") for needed in all_rules()[rule].needs}


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_outranks_or_yields_to_exists_and_does_not_contradict_itself(rule):
    one = all_rules()[rule]
    above = {name for name in one.outranks if isinstance(name, str)}
    below = {name for name in one.yields_to if isinstance(name, str)}

    assert above | below <= set(RULES) - {rule}
    assert not above & below
    assert not [name for name in above if rule in all_rules()[name].outranks]


def test_of_two_rules_at_most_one_is_above_the_other():
    rules = all_rules()
    found = {name: {one.explains} for name, one in rules.items()}

    both = [
        (name, other)
        for name, other in combinations(rules, 2)
        if is_above(rules[name], rules[other], found) and is_above(rules[other], rules[name], found)
    ]

    assert both == []


def test_an_end_that_is_only_predicted_is_behind_no_end_that_has_happened():
    rules, killed = all_rules(), {"worker-oom-killed": {Symptom.CRASHED}, "uncaught-exception": {Symptom.CRASHED}}
    predicted = {"bucket-remainder": {Symptom.WRONG}, "ddp-uneven-batches": {Symptom.WRONG}}

    def above(name, other):
        return is_above(rules[name], rules[other], killed | predicted)

    assert [(name, other) for name in predicted for other in killed if above(name, other)] == []
    assert [(name, other) for name in killed for other in predicted if above(name, other)] == []
    assert above("bucket-remainder", "ddp-uneven-batches")
    assert above("worker-oom-killed", "uncaught-exception")


def test_precedence_is_said_by_levels_and_few_names():
    named = [name for one in all_rules().values() for name in (*one.outranks, *one.yields_to)]

    assert len(named) <= 160


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_documents_itself(rule):
    headings = [line[3:] for line in documentation(all_rules()[rule]).splitlines() if line.startswith("## ")]

    assert tuple(headings) in (HEADINGS, (*HEADINGS, THREADS))


def test_a_rule_that_raises_is_broken_and_takes_nothing_down(monkeypatch):
    def raises(_):
        raise ZeroDivisionError("a bug")

    rules = dict(all_rules())
    rules["worker-killed"] = msgspec.structs.replace(rules["worker-killed"], check=raises)
    monkeypatch.setattr("unstuck.rules.engine.all_rules", lambda: rules)

    verdicts = {one.rule: one.verdict for one in judge(Case(evidence("worker-oom-killed", "found")))}

    assert "broken" in verdicts.values()
    assert verdicts["worker-oom-killed"] == "found"


@pytest.mark.parametrize(("collecting", "first"), [(0.14, "hf-indices-mapping"), (0.98, "gc-pauses")])
def test_of_two_causes_that_cost_time_the_larger_share_comes_first(collecting, first):
    mapping = evidence("hf-indices-mapping", "found")
    main = Case(mapping).mains[0]
    took = Timing(count=10, total=collecting * lasted(main), longest=0.1)
    busy = msgspec.structs.replace(main, collecting=took)
    both = msgspec.structs.replace(mapping, recording=[busy if one is main else one for one in mapping.recording])

    roots = [one for one in report_on(both).findings if one.role == "root"]

    assert {one.rule for one in roots} == {"gc-pauses", "hf-indices-mapping"}
    assert roots[0].rule == first


def test_a_consequence_names_its_root():
    findings = report_on(evidence("shm-exhausted", "found")).findings

    consequences = {one.rule: one.because_of for one in findings if one.role == "consequence"}

    assert consequences["uncaught-exception"] == "shm-exhausted"


def test_a_saved_report_is_judged_again_to_the_same_verdict():
    first = report_on(evidence("worker-killed", "found"))
    saved = msgspec.json.decode(msgspec.json.encode(first), type=type(first))

    assert report_on(saved.evidence).findings == first.findings


def test_a_counter_that_moved_counts_though_the_last_look_came_too_late_to_read_it():
    found = evidence("worker-oom-killed", "found")
    (host,) = found.host
    late = msgspec.structs.replace(host.samples[-1], oom_kills={"machine": 99}, processes=[])
    host = msgspec.structs.replace(host, samples=[*host.samples, late])

    report = report_on(msgspec.structs.replace(found, host=[host]))

    assert report.findings[0].rule == "worker-oom-killed"
