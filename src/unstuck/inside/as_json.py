"""Facts as JSON that every reader takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def as_json(facts: dict[str, Any], default: Callable[[Any], Any]) -> str:
    """Python writes `Infinity` and `NaN`, which are no JSON: a dataset with `best = float("inf")` has them as text."""
    text = json.dumps(facts, ensure_ascii=False, default=default)
    if "Infinity" not in text and "NaN" not in text:
        return text
    return json.dumps(json.loads(text, parse_constant=str), ensure_ascii=False)
