"""The error that stood on the user's screen, put beside the cause behind it: it can be recognised and searched."""

from __future__ import annotations

import msgspec

from ..analysis.case import Case
from ..analysis.failures import ended_by
from ..evidence.finding import Finding, Symptom
from ..evidence.process import Failure, Process
from ..wording.text import said


def with_errors(case: Case, findings: list[Finding]) -> list[Finding]:
    """Roots of a crash say how it showed, unless they say so themselves or their cause does."""
    return [_with_error(case, finding) for finding in findings]


def _with_error(case: Case, finding: Finding) -> Finding:
    crashed = finding.role == "root" and finding.symptom == Symptom.CRASHED.value and not finding.saw
    failure = _failure(case, finding) if crashed else None
    if failure is None:
        return finding
    text = said(failure)
    told = failure.message.strip().splitlines()[:1]
    return finding if told and told[0] in finding.cause else msgspec.structs.replace(finding, saw=text)


def _failure(case: Case, finding: Finding) -> Failure | None:
    """Of the main process that the finding is about, else of its rank, else the first of all."""
    for main in sorted(case.mains, key=lambda main: _distance(main, finding)):
        failure = ended_by(main)
        if failure is not None:
            return failure
    return None


def _distance(main: Process, finding: Finding) -> tuple[bool, bool]:
    return (main.node, main.pid) != (finding.node, finding.pid), main.rank != finding.rank
