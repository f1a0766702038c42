"""A report as one JSON object."""

from __future__ import annotations

import msgspec

from ..model.report import Report

LAST = ("evidence",)


def render(report: Report, *, with_evidence: bool = False) -> str:
    """The contract of every `--json`. Evidence goes in only when asked for; else its path, if it has one."""
    shown = msgspec.to_builtins(report)
    ordered = {"schema": shown.pop("schema"), **shown}
    if not with_evidence and not isinstance(report.evidence, str):
        ordered["evidence"] = None
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode()
