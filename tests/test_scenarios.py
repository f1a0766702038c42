"""Every scenario for real: the broken ones get their verdict, the healthy ones none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from unstuck.rules.discovery import all_rules
from unstuck.trials.scenarios import all_scenarios, run_in_passing
from unstuck.trials.surroundings import Unavailable

SCENARIOS = all_scenarios()


def marked(name):
    """There is no time for all: further forms of a failure that has a scenario already are run on request.

    So are the healthy neighbours of the rules: what was kept of them is judged every time, and the look-alikes, which
    are named healthy-, are run. Data that is only checked takes a second: all of that is run.
    """
    known = name.startswith("healthy-") or name in all_rules() or SCENARIOS[name].check
    return pytest.param(name, marks=[] if known else pytest.mark.variant)


def outcome_of(name):
    try:
        return run_in_passing(SCENARIOS[name])
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.scenario
@pytest.mark.parametrize("name", [marked(name) for name in sorted(SCENARIOS)])
def test_the_verdict_is_the_expected_one(name):
    outcome = outcome_of(name)

    assert outcome.verdict() == SCENARIOS[name].expect, outcome.output[-3000:]
    assert outcome.report.notes == []


def test_every_rule_has_a_scenario_and_a_healthy_neighbour():
    expected = {one.expect for one in SCENARIOS.values()}

    assert set(all_rules()) <= expected
    assert all(SCENARIOS[f"{rule}-healthy"].expect == "healthy" for rule in all_rules())


@pytest.mark.scenario
@pytest.mark.variant
@pytest.mark.parametrize(("name", "times"), [("worker-killed", 3)])
def test_the_same_kill_gets_the_same_verdict_every_time_whatever_exception_it_surfaces_as(name, times):
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda _: outcome_of(name).verdict(), range(times)))

    assert verdicts == [name] * times
