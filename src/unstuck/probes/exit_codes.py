"""Exceptions that a program caught and then exited with a code: the code tells whether they ended it."""

from __future__ import annotations

import msgspec

from ..analysis.case import Case
from ..evidence import Evidence
from ..evidence.process import Failure, Process

HANDLED = "exit"


def settled(evidence: Evidence) -> Evidence:
    """`sys.exit(1)` in an `except` block may itself be caught: it counts where the process did end with a code."""
    if not any(failure.how == HANDLED for process in evidence.recording or () for failure in process.failures):
        return evidence
    case = Case(evidence)
    return msgspec.structs.replace(evidence, recording=[_settled(case, process) for process in case.recording or ()])


def _settled(case: Case, process: Process) -> Process:
    with_code = _exited_with_code(case, process)
    failures = [_ended(failure) if failure.how == HANDLED else failure for failure in process.failures]
    kept = [failure for failure in failures if with_code or not failure.caught]
    return msgspec.structs.replace(process, failures=kept)


def _ended(failure: Failure) -> Failure:
    return msgspec.structs.replace(failure, how="uncaught", caught=True)


def _exited_with_code(case: Case, process: Process) -> bool:
    statuses = [seen.status for seen in case.exits_of(process)]
    if case.is_command(process.node, process.pid) and case.run.status is not None:
        statuses.append(case.run.status)
    return any(status > 0 for status in statuses)
