"""Trainings that nobody prepared: `unstuck why PID` names the cause of the broken ones and leaves the healthy alone."""

from itertools import islice

import pytest

from unstuck.rules.discovery import all_rules
from unstuck.trials.scenarios import all_scenarios
from unstuck.trials.surroundings import Unavailable
from unstuck.trials.unprepared import reports, started

SCENARIOS = all_scenarios()
LIVE = [
    name
    for name, one in SCENARIOS.items()
    if one.outside in all_rules() and {"processes", "stacks"} & set("|".join(all_rules()[one.outside].needs).split("|"))
]
# From outside, some cannot be told apart: one of each kind is enough.
ALIKE = {name for name in LIVE if name not in all_rules() or SCENARIOS[name].outside in set(LIVE) - {name}}
LOOKS = 2  # at a healthy one, the later the better: by then it has come to what makes it look broken
LOOK_ALIKES = [name for name, one in SCENARIOS.items() if name.startswith("healthy-") and not one.check]
# From outside, these look like a training that gets on, or like another of them.
PLAIN = {
    "healthy-accelerate-even-batches", "healthy-compute-bound", "healthy-ddp-join", "healthy-ddp-no-sync",
    "healthy-memory-map-growth", "healthy-notebook", "healthy-shuffle-buffer", "healthy-validation-all-ranks",
    "healthy-ddp-even", "healthy-resume-fast-forward", "healthy-first-batch-token-buffer", "healthy-long-validation",
    "healthy-torch-compile-warmup", "healthy-resume-stateful",
    "healthy-lightning-demos", "healthy-transformers-example", "healthy-short-last-shard",
}  # fmt: skip

VARIANT = pytest.mark.variant  # a further form of what has a scenario already: on request only

pytestmark = pytest.mark.scenario


def roots(report):
    return [one.rule for one in report.findings if one.role == "root"]


@pytest.mark.parametrize("name", [pytest.param(one, marks=[VARIANT] if one in ALIKE else []) for one in LIVE])
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


@pytest.mark.parametrize("name", [pytest.param(one, marks=[VARIANT] if one in PLAIN else []) for one in LOOK_ALIKES])
def test_nothing_is_said_of_a_healthy_one(name):
    scenario = SCENARIOS[name]
    said = []

    try:
        with started(scenario) as process:
            for report in islice(reports(process, every=2), LOOKS):
                said += [(one.rule, one.cause) for one in report.findings]
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert said == []
