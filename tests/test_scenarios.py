"""Every scenario for real: the broken ones get their verdict, the healthy ones none."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from core import SCENARIOS, family, from_outside, in_core, marked
from unstuck.demo.scenarios import run_in_passing
from unstuck.demo.surroundings import Unavailable
from unstuck.rules.discovery import all_rules

SEVERAL = 3  # rules of each family that the core tries


def outcome_of(name):
    try:
        return run_in_passing(SCENARIOS[name])
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", marked(sorted(SCENARIOS)))
def test_the_verdict_is_the_expected_one(name):
    outcome = outcome_of(name)

    assert outcome.verdict() == SCENARIOS[name].expect, outcome.output[-3000:]
    assert outcome.report.notes == []


def test_every_rule_has_a_scenario_and_a_healthy_neighbour():
    expected = {scenario.expect for scenario in SCENARIOS.values()}

    assert set(all_rules()) <= expected
    assert all(SCENARIOS[f"{rule}-healthy"].expect == "healthy" for rule in all_rules())


def test_the_core_has_several_rules_of_every_family_with_their_healthy_neighbours():
    tried = [rule for rule in all_rules() if in_core(rule)]
    counts = Counter(family(rule) for rule in tried)

    assert {name: counts[name] for name in {family(rule) for rule in all_rules()} if counts[name] < SEVERAL} == {}
    assert all(in_core(f"{rule}-healthy") for rule in tried)


def test_the_core_looks_from_outside_at_every_family_that_can_be_seen_from_there():
    seen = {rule for scenario in SCENARIOS.values() if from_outside(scenario) for rule in [scenario.outside]}
    tried = {scenario.outside for scenario in SCENARIOS.values() if scenario.core and from_outside(scenario)}

    assert {family(rule) for rule in tried} == {family(rule) for rule in seen}


@pytest.mark.scenario
@pytest.mark.calm
@pytest.mark.parametrize(("name", "times"), [("worker-killed", 3)])
def test_the_same_kill_gets_the_same_verdict_every_time_whatever_exception_it_surfaces_as(name, times):
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda _: outcome_of(name).verdict(), range(times)))

    assert verdicts == [name] * times
