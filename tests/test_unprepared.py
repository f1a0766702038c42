"""Trainings that nobody prepared: `unstuck why PID` names the cause of the broken ones and leaves the healthy alone."""

from itertools import islice

import pytest

from core import SCENARIOS, from_outside, marked
from unprepared import reports, started
from unstuck.demo.surroundings import Unavailable

LIVE = [name for name, scenario in SCENARIOS.items() if from_outside(scenario)]
LOOKS = 2  # at a healthy one, the later the better: by then it has come to what makes it look broken
LOOK_ALIKES = [name for name, one in SCENARIOS.items() if name.startswith("healthy-") and not one.check]

pytestmark = pytest.mark.scenario


def roots(report):
    return [finding.rule for finding in report.findings if finding.role == "root"]


@pytest.mark.parametrize("name", marked(LIVE))
def test_the_cause_is_named_from_outside(name):
    scenario = SCENARIOS[name]
    said = []

    try:
        with started(scenario) as process:
            for report in reports(process, every=6):
                said = roots(report)
                if said:
                    break
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert said == [scenario.outside]


@pytest.mark.parametrize("name", marked(LOOK_ALIKES))
def test_nothing_is_said_of_a_healthy_one(name):
    scenario = SCENARIOS[name]
    said = []

    try:
        with started(scenario) as process:
            for report in islice(reports(process, every=2), LOOKS):
                said += [(finding.rule, finding.cause) for finding in report.findings]
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert said == []
