"""What a fix needs of torch and other libraries: offered where the run has it, or with the version it needs."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.process import Process

RULES = {
    "in-order-head-of-line": ("torch", "in_order=False", "2.5.1", "2.6.0"),
    "compile-recompiles": ("torch", "allow_unspec_int_on_nn_module", "2.4.1+cu121", "2.13.0+cpu"),
    "wandb-finish-hang": ("wandb", "WANDB_FINISH_TIMEOUT", "0.19.1", "0.31.0"),
    "accelerate-uneven-batch-sampler": ("accelerate", "Remove even_batches=False", "1.13.0.dev0", "1.14"),
}


def ways_of(rule, versions):
    """All that is offered, as texts with their code."""
    evidence = evidence_of(rule)
    recording = [msgspec.structs.replace(one, versions=versions) for one in evidence.recording or ()]
    found = report_on(msgspec.structs.replace(evidence, recording=recording)).findings
    (finding,) = [one for one in found if one.rule == rule][:1]
    return [" ".join([way.text, *way.code, *way.commands]) for way in (finding.remedy, *finding.alternatives)]


@pytest.mark.parametrize("rule", RULES)
def test_a_way_out_that_needs_a_newer_version_is_offered_only_where_it_works(rule):
    library, code, older, newer = RULES[rule]

    unknown = [way for way in ways_of(rule, {}) if code in way]
    works = [way for way in ways_of(rule, {library: newer}) if code in way]

    assert len(unknown) == len(works) == 1
    assert "or later)" in unknown[0]
    assert "or later)" not in works[0]
    assert not [way for way in ways_of(rule, {library: older}) if code in way]
    assert ways_of(rule, {library: older}), "another way out is left"


@pytest.mark.parametrize(
    ("told", "has"),
    [("2.6.0", True), ("2.13.0+cpu", True), ("2.5.1", False), ("3", None), ("", None), ("nightly", None)],
)
def test_a_version_is_compared_by_its_numbers(told, has):
    main = Process("here", 1, 0, "main", versions={"torch": told} if told else {})

    assert Case(Evidence(run=Run(id="x"), recording=[main])).has("torch", 2, 6) is has
