"""A report as one JSON object."""

from __future__ import annotations

import msgspec

from ..model.report import Report


def render(report: Report) -> str:
    """The contract of every `--json`: the evidence inline, or where it lies."""
    shown = msgspec.to_builtins(report)
    return msgspec.json.format(msgspec.json.encode({"schema": shown.pop("schema"), **shown}), indent=2).decode()
