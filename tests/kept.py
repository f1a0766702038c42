"""Evidence of real runs that is kept for tests, one folder per rule: its failure, its healthy neighbour, and others."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence
from unstuck.report import Report

KEPT = Path(__file__).parent / "rules" / "captured"
OUTCOMES = Path(__file__).parent / "rules" / "outcomes.txt"


def evidence_of(rule: str, name: str = "found") -> Evidence:
    return msgspec.json.decode((KEPT / rule / f"{name}.json").read_bytes(), type=Evidence)


def case_of(rule: str, name: str = "found") -> Case:
    return Case(evidence_of(rule, name))


def report_of(rule: str, name: str = "found") -> Report:
    return report_on(evidence_of(rule, name))
