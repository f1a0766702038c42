"""The loaders that went through accelerate's `prepare`, as a recording's notes tell of them."""

from __future__ import annotations

from typing import Any

import msgspec

from ..evidence.distributed import Loading, Prepared
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts


def prepared(facts: Facts) -> list[Prepared]:
    """Told when it begins and again when it is done: the newest of each beginning counts."""
    newest = {one[f.R_START]: one for one in facts.noted(Kind.PREPARED)}
    return [_prepared(facts, one) for one in newest.values()]


def _prepared(facts: Facts, one: list[int]) -> Prepared:
    told = facts.recording.told(one[f.R_A])
    known = {name: value for name, value in told.items() if value is not None}
    known["before"] = _loading(told.get("before"))
    if "after" in known:
        known["after"] = _loading(known["after"])
    return msgspec.convert(
        {**known, "at": facts.at(one[f.R_START]), "loader": one[f.R_B] or None}, Prepared, strict=False
    )


def _loading(told: object) -> dict[str, Any]:
    """What is not known stays at its default."""
    fields, known = Loading.__struct_fields__, msgspec.convert(told or {}, dict[str, Any])
    return {name: value for name, value in known.items() if name in fields and value is not None}
