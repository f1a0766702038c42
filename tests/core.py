"""Which scenarios `make test` runs: those whose first line says so, with their healthy neighbours, and all data checks.

The others are run by `make scenarios` alone.
"""

from __future__ import annotations

import pytest

from unstuck.demo.scenarios import Scenario, all_scenarios
from unstuck.rules.discovery import all_rules

SCENARIOS = all_scenarios()


def in_core(name: str) -> bool:
    """Data that is only checked takes a second: all of that is."""
    return bool(SCENARIOS[name].check) or any(
        SCENARIOS[one].core for one in (name, name.removesuffix("-healthy")) if one in SCENARIOS
    )


def marked(names):
    """Parameters for a test of scenarios: every one is either of the core or run calmly."""
    marks = {True: pytest.mark.core, False: pytest.mark.calm}
    return [pytest.param(name, marks=[pytest.mark.scenario, marks[in_core(name)]]) for name in names]


def family(rule: str) -> str:
    """The folder that its file is in."""
    return all_rules()[rule].check.__module__.split(".")[-2]


def from_outside(scenario: Scenario) -> bool:
    """Whether a look at the living process, by `unstuck why PID`, can come to a cause."""
    rule = all_rules().get(scenario.outside)
    return rule is not None and bool({"processes", "stacks"} & set("|".join(rule.needs).split("|")))
