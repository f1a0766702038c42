"""A report as one JSON object."""

from __future__ import annotations

import msgspec

from ..report import Report
from ..wording.printable import printable_json


def render(report: Report) -> str:
    """The contract of every `--json`: the evidence inline, or where it lies."""
    shown = msgspec.to_builtins(report)
    whole = msgspec.json.encode({"schema": shown.pop("schema"), **shown})
    return printable_json(msgspec.json.format(whole, indent=2).decode())
